"""The kernel's own blk-throttle: a loop device over a file, and a cgroup whose I/O on it is limited. Root only."""

import contextlib
import os
import pathlib
import subprocess
import time

from lib.servers import Absent, installed
from lib.workplace import own_name, stale

# What io.max calls its keys, and the file of cgroup version 1 for each.
_VERSION_1 = {
    "rbps": "blkio.throttle.read_bps_device",
    "wbps": "blkio.throttle.write_bps_device",
    "riops": "blkio.throttle.read_iops_device",
    "wiops": "blkio.throttle.write_iops_device",
}


class LoopDevice(contextlib.ExitStack):
    """A loop device over `file`, with sectors and page cache as they come, or past the page cache if `direct`."""

    def __init__(self, file, direct=False):
        super().__init__()
        self._file, self._direct = file, direct

    def __enter__(self):
        super().__enter__()
        try:
            self.path = self._attach()
        except BaseException:
            self.close()
            raise
        return self

    def set(self, setting, value):
        """Writes to the device's queue in sysfs: `set("scheduler", "none")`."""
        queue = pathlib.Path("/sys/block", pathlib.Path(self.path).name, "queue")
        (queue / setting).write_text(str(value), encoding="ascii")

    def _attach(self):
        if os.geteuid() != 0:
            raise Absent("a loop device needs root")
        attach = [installed("losetup"), "--find", "--show", *(["--direct-io=on"] if self._direct else []), self._file]
        attached = subprocess.run(attach, capture_output=True, text=True, check=False)
        if attached.returncode != 0:
            raise Absent(f"no loop device: {attached.stderr.strip()}")
        device = attached.stdout.strip()
        # Detached at once but held open, it stays until the descriptor goes, whatever becomes of us.
        held = os.open(device, os.O_RDONLY)
        self.callback(os.close, held)
        subprocess.run(["losetup", "--detach", device], check=True)
        return device


class Limited(contextlib.ExitStack):
    """A cgroup whose `limits` ({"riops": 100, "rbps": 4 << 20}) on `device` hold for processes that `join` it."""

    def __init__(self, device, limits, mounts="/proc/self/mounts"):
        super().__init__()
        self._device, self._limits, self._mounts = device, limits, mounts

    def __enter__(self):
        super().__enter__()
        try:
            number = os.stat(self._device).st_rdev
            self._cgroup = self._make(f"{os.major(number)}:{os.minor(number)}")
        except BaseException:
            self.close()
            raise
        return self

    def join(self):
        """Puts the calling process into the cgroup; for the time between fork and exec."""
        (self._cgroup / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def _make(self, number):
        version, root = find_controller(self._mounts)
        clear_stale(root)
        cgroup = root / own_name()
        cgroup.mkdir()
        self.callback(remove, cgroup)
        for file, line in limit_lines(version, number, self._limits):
            (cgroup / file).write_text(line, encoding="ascii")
        return cgroup


class Throttled(contextlib.ExitStack):
    """A loop device over `image` that processes which `join` may read `riops` times a second."""

    def __init__(self, image, riops):
        super().__init__()
        self._image, self._riops = image, riops

    def __enter__(self):
        super().__enter__()
        try:
            self.device = self.enter_context(LoopDevice(self._image)).path
            self.join = self.enter_context(Limited(self.device, {"riops": self._riops})).join
        except BaseException:
            self.close()
            raise
        return self


def limit_lines(version, number, limits):
    """What to write where, so that device `number` has `limits`, by the keys of io.max."""
    if version == 1:
        return [(_VERSION_1[key], f"{number} {limit}") for key, limit in limits.items()]
    return [("io.max", " ".join([number, *(f"{key}={limit}" for key, limit in limits.items())]))]


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


def remove(cgroup, patience=2.0):
    """Removes a cgroup; the processes that were just ended take a moment to leave it."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return cgroup.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def clear_stale(root):
    """Removes the cgroups that runs which were killed outright left in `root`."""
    for left in stale(root):
        with contextlib.suppress(OSError):
            left.rmdir()
