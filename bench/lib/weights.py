"""The kernel's cgroups with weights for BFQ. Root only."""

import contextlib
import os

from lib.blkthrottle import clear_stale, find_controller, remove
from lib.servers import Absent
from lib.workplace import own_name

# By the version of cgroups.
_FILES = {1: "blkio.bfq.weight", 2: "io.bfq.weight"}


class Weighted(contextlib.ExitStack):
    """Cgroups side by side, with `weights` by name; they hold wherever BFQ is the scheduler."""

    def __init__(self, weights, mounts="/proc/self/mounts"):
        super().__init__()
        self._weights, self._mounts, self._cgroups = weights, mounts, {}

    def __enter__(self):
        super().__enter__()
        try:
            if self._weights:
                self._make()
        except BaseException:
            self.close()
            raise
        return self

    def join(self, name):
        """A line of shell that puts its shell's parent into the cgroup of this name: fio runs it before a job.

        In braces, so that where fio sends its output to is not where the number goes to.
        """
        return "{ echo $PPID >" + str(self._cgroups[name] / "cgroup.procs") + "; }"

    def _make(self):
        if os.geteuid() != 0:
            raise Absent("cgroups need root")
        version, root = find_controller(self._mounts)
        clear_stale(root)
        for name, weight in self._weights.items():
            cgroup = root / f"{own_name()}-{name}"
            cgroup.mkdir()
            self.callback(remove, cgroup)
            try:
                (cgroup / _FILES[version]).write_text(str(weight), encoding="ascii")
            except OSError as error:
                raise Absent(f"this kernel's BFQ has no weights for cgroups: {error.strerror}") from None
            self._cgroups[name] = cgroup
