"""Files that stay in memory while something is measured.

What is in the page cache now need not be there in a minute: a kernel may give memory back that was not touched for some
seconds (DAMON's reclaim, on virtual machines above all), however much of it is free. A read of such a page takes a disk's
time, and so does a step into such a page of a program: a fifth of a millisecond, in a test of microseconds.
"""

import contextlib
import ctypes
import mmap
import os
import shutil
import subprocess
import sys

_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = _libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Resident(contextlib.ExitStack):
    """Keeps files in memory until it is left, if the limit on locked memory allows that (`ulimit -l`)."""

    def __init__(self):
        super().__init__()
        self._kept = set()

    def keep(self, path):
        """Reads a file into the page cache and locks it there; whether that was permitted."""
        path = os.path.realpath(path)
        if path in self._kept:
            return True
        try:
            self.callback(_libc.munmap, *_locked(path))
        except OSError:
            return False
        self._kept.add(path)
        return True

    def keep_program(self, program):
        """The same for a program and the libraries that it is linked with."""
        path = shutil.which(program)
        return path is not None and all([self.keep(each) for each in [path, *_libraries(path)]])


def _locked(path):
    """Maps a whole file, locked; its address and length."""
    with open(path, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), "mmap", path)
    if _libc.mlock(address, length) != 0:
        error = ctypes.get_errno()
        _libc.munmap(address, length)
        raise OSError(error, "mlock", path)
    return address, length


def _libraries(path):
    """What the dynamic linker would load for `path`, by name; nothing for what it does not know."""
    if shutil.which("ldd") is None:
        return []
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    words = (word for line in listed.splitlines() for word in line.split())
    return [word for word in words if word.startswith("/")]
