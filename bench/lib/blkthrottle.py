"""The kernel's own blk-throttle: a loop device over a file, and a cgroup whose reads of it are limited. Root only."""

import contextlib
import os
import pathlib
import subprocess
import time

from lib.servers import Absent, installed
from lib.workplace import own_name, stale


class Throttled(contextlib.ExitStack):
    """A loop device over `image` that processes which `join` may read `riops` times a second."""

    def __init__(self, image, riops, mounts="/proc/self/mounts"):
        super().__init__()
        self._image, self._riops, self._mounts = image, riops, mounts

    def __enter__(self):
        super().__enter__()
        try:
            self.device = self._loop_device()
            number = os.stat(self.device).st_rdev
            self._cgroup = self._make_cgroup(f"{os.major(number)}:{os.minor(number)}")
        except BaseException:
            self.close()
            raise
        return self

    def join(self):
        """Puts the calling process into the limited cgroup; for the time between fork and exec."""
        (self._cgroup / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def _loop_device(self):
        if os.geteuid() != 0:
            raise Absent("blk-throttle needs root: a loop device and a cgroup")
        attach = [installed("losetup"), "--find", "--show", self._image]
        attached = subprocess.run(attach, capture_output=True, text=True, check=False)
        if attached.returncode != 0:
            raise Absent(f"no loop device: {attached.stderr.strip()}")
        device = attached.stdout.strip()
        # Detached at once but held open, it stays until the descriptor goes, whatever becomes of us.
        held = os.open(device, os.O_RDONLY)
        self.callback(os.close, held)
        subprocess.run(["losetup", "--detach", device], check=True)
        return device

    def _make_cgroup(self, number):
        version, root = find_controller(self._mounts)
        _clear_stale(root)
        cgroup = root / own_name()
        cgroup.mkdir()
        self.callback(_remove, cgroup)
        for file, line in limit_lines(version, number, self._riops):
            (cgroup / file).write_text(line, encoding="ascii")
        return cgroup


def limit_lines(version, number, riops):
    """What to write where, so that device `number` may be read `riops` times a second."""
    if version == 1:
        return [("blkio.throttle.read_iops_device", f"{number} {riops}")]
    return [("io.max", f"{number} riops={riops}")]


def find_controller(mounts):
    """The block controller's cgroup version and the directory of its hierarchy."""
    unified = None
    with open(mounts, encoding="utf-8") as lines:
        for line in lines:
            _source, point, kind, options = line.split()[:4]
            if kind == "cgroup" and "blkio" in options.split(","):
                return 1, pathlib.Path(point)
            if kind == "cgroup2":
                unified = pathlib.Path(point)
    if unified and "io" in (unified / "cgroup.controllers").read_text(encoding="ascii").split():
        control = unified / "cgroup.subtree_control"
        # Left on afterwards if it was off: another cgroup may have begun to rely on it by then.
        if "io" not in control.read_text(encoding="ascii").split():
            control.write_text("+io", encoding="ascii")
        return 2, unified
    raise Absent("no cgroup hierarchy with the block controller is mounted")


def _remove(cgroup, patience=2.0):
    """Removes a cgroup; the processes that were just ended take a moment to leave it."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return cgroup.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _clear_stale(root):
    for left in stale(root):
        with contextlib.suppress(OSError):
            left.rmdir()
