"""The kernel's cgroups side by side, each with what is written into its files. Root only."""

import contextlib
import os
import shlex

from lib.blkthrottle import clear_stale, find_controller, remove
from lib.servers import Absent
from lib.workplace import own_name

# By the version of cgroups.
_WEIGHT_FILES = {1: "blkio.bfq.weight", 2: "io.bfq.weight"}


def weight_line(version, weight):
    """The file of a cgroup for BFQ's weight, and what to write there."""
    return _WEIGHT_FILES[version], str(weight)


class Cgroups(contextlib.ExitStack):
    """A cgroup for each name in `lines`, whose value answers its files and what is written there, by the version of
    cgroups; none for none.
    """

    def __init__(self, lines, mounts="/proc/self/mounts"):
        super().__init__()
        self._lines, self._mounts, self._paths = lines, mounts, {}
        self.are_there = bool(lines)

    def __enter__(self):
        super().__enter__()
        try:
            if self.are_there:
                self._make()
        except BaseException:
            self.close()
            raise
        return self

    def join(self, name):
        """A line of shell that puts its shell's parent into the cgroup of this name: fio runs it before a job.

        In braces, so that where fio sends its output to is not where the number goes to.
        """
        return "{ echo $PPID >" + shlex.quote(str(self._paths[name] / "cgroup.procs")) + "; }"

    def _make(self):
        if os.geteuid() != 0:
            raise Absent("cgroups need root")
        version, root = find_controller(self._mounts)
        clear_stale(root)
        for name, lines in self._lines.items():
            path = root / f"{own_name()}-{name}"
            path.mkdir()
            self.callback(remove, path)
            for file, line in lines(version):
                try:
                    (path / file).write_text(line, encoding="ascii")
                except OSError as error:
                    raise Absent(f"this kernel takes no {file}: {error.strerror}") from None
            self._paths[name] = path
