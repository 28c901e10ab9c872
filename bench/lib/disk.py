"""An emulated disk as the kernel's: `weir disk mount`, and a loop device over it. Root only."""

import contextlib
import os
import pathlib
import select
import shutil
import subprocess

from lib.blkthrottle import LoopDevice
from lib.servers import Absent, weir_program
from lib.usage import cpu_seconds
from lib.workplace import end, stale


class KernelDisk(contextlib.ExitStack):
    """The emulated `disk` as a block device at `path`, under one of the kernel's schedulers and its `tunables`."""

    def __init__(self, place, disk, scheduler, program=None, tunables=None, mounts="/proc/self/mounts"):
        super().__init__()
        self._place, self._disk, self._scheduler, self._program = place, disk, scheduler, program
        self._tunables, self._mounts = tunables or {}, mounts

    def __enter__(self):
        super().__enter__()
        try:
            device = self.enter_context(LoopDevice(self._mount(), direct=True))
            device.set("rotational", int(self._disk.startswith(("hdd", "disk"))))
            try:
                device.set("scheduler", self._scheduler)
            except OSError as error:
                raise Absent(f"this kernel has no scheduler {self._scheduler}: {error.strerror}") from None
            for name, value in self._tunables.items():
                device.set(f"iosched/{name}", value)
            self.path = device.path
        except BaseException:
            self.close()
            raise
        return self

    def cpu_seconds(self):
        return cpu_seconds(self._process.pid)

    def _mount(self):
        if os.geteuid() != 0:
            raise Absent("a loop device needs root")
        if not os.path.exists("/dev/fuse"):
            raise Absent("this kernel has no FUSE")
        _clear_stale(self._mounts, self._place.images.parent)
        directory = self._place.fresh("disk")
        directory.mkdir()
        command = [self._program or weir_program(), "disk", "mount", self._disk, directory, "--foreground"]
        self._process = self._place.spawn([*command, "--memory", "4G"], stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True)
        # Killed or not, no mount of ours stays in the way of the place's removal.
        self.callback(_unmount, directory)
        self.callback(end, self._process)
        if not select.select([self._process.stdout], [], [], 10)[0]:
            raise RuntimeError("weir disk mount has not printed the disk's path after 10 s")
        path = self._process.stdout.readline().strip()
        if not path:
            raise RuntimeError(f"weir disk mount failed: {self._process.stderr.read().strip()[-600:]}")
        return path


def _unmount(directory):
    if os.path.ismount(directory) or _is_dead(directory):
        subprocess.run(["umount", "--lazy", directory], check=False)


def _is_dead(directory):
    try:
        os.stat(directory)
    except OSError:
        return True
    return False


def _clear_stale(mounts, parent):
    """Unmounts what runs that were killed outright left below `parent`, their servers dead, and removes it."""
    lost = list(stale(parent))
    with open(mounts, encoding="utf-8") as lines:
        points = [pathlib.Path(line.split()[1]) for line in lines]
    for path in lost:
        for point in points:
            if path in point.parents:
                _unmount(point)
        shutil.rmtree(path, ignore_errors=True)
