"""A place to work in that leaves nothing behind: temporary files, processes and whatever else a run sets up."""

import contextlib
import ctypes
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from lib.resident import Resident

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "bench"

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def progress(text):
    """One line about what happens now, for whoever waits; results go to standard output."""
    print(text, file=sys.stderr, flush=True)


class Workplace(contextlib.ExitStack):
    """Owns everything that a benchmark starts. Leaving it undoes all of it, also after Ctrl-C or a failure.

    `images` is on the disk that holds the results, for big files; `sockets` has a short path, because a Unix
    socket's path may have 107 bytes.
    """

    def __enter__(self):
        super().__enter__()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _leave)
        RESULTS.mkdir(parents=True, exist_ok=True)
        self.images = self._directory(RESULTS)
        self.sockets = self._directory(None)
        self._numbers = itertools.count()
        self._resident = self.enter_context(Resident())
        self.before_each = self.before_server = None
        self.keeps_programs = False
        return self

    def fresh(self, stem, suffix=""):
        """A path among the images that nobody has had before."""
        return self.images / f"{stem}-{next(self._numbers)}{suffix}"

    def fresh_socket(self):
        """A path for a Unix socket that nobody has had before."""
        return self.sockets / f"nbd-{next(self._numbers)}"

    def _directory(self, parent):
        parent = pathlib.Path(parent or tempfile.gettempdir())
        for left in stale(parent):
            shutil.rmtree(left, ignore_errors=True)
        path = pathlib.Path(tempfile.mkdtemp(prefix=f"{own_name()}-", dir=parent))
        self.callback(shutil.rmtree, path, ignore_errors=True)
        return path

    def image(self, mebibytes):
        """A file of random data, in the page cache to stay, and on the disk, so that no write-back disturbs the runs."""
        path = self.images / f"random-{mebibytes}M.raw"
        if not path.exists():
            with open(path, "wb") as file:
                for _ in range(mebibytes):
                    file.write(os.urandom(1 << 20))
                file.flush()
                os.fsync(file.fileno())
            if not self._resident.keep(path):
                progress(f"warning: {mebibytes} MiB may not be locked into memory (ulimit -l): some reads may be a disk's")
        return path

    def spawn(self, command, **options):
        """Starts a process in a session of its own; it is ended, with its children, when the workplace is left.

        Its own session keeps a Ctrl-C in the terminal for us alone; and should we be killed, the kernel ends it.
        `before` runs in the new process, after `before_each` of the workplace, if it has one. If the workplace
        `keeps_programs`, no page of this one is read from a disk again, as far as that is permitted.
        """
        if self.keeps_programs:
            self._resident.keep_program(str(command[0]))
        steps = [step for step in (self.before_each, options.pop("before", None)) if step]

        def prepare():
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            for step in steps:
                step()

        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=prepare,
            **options,
        )
        self.callback(end, process)
        return process


def own_name():
    """The name of what this run leaves to be found if it is killed outright."""
    return f"weir-bench-{os.getpid()}"


def stale(directory):
    """What runs that were killed outright left in `directory`."""
    for left in directory.glob("weir-bench-*"):
        pid = left.name.removeprefix("weir-bench-").split("-")[0]
        if not pathlib.Path("/proc", pid).exists():
            yield left


def end(process, patience=5.0):
    """Asks a process to end, and insists after `patience` seconds. Its whole process group goes with it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
    # Its children may outlive it (fio's jobs do); the group's number stays theirs until the last one has ended.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


def wait_for(what, ready, process, seconds=10.0):
    """Waits until `ready()` holds; fails if the process ends first or the time is over."""
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None:
            raise RuntimeError(f"{what} ended with status {process.returncode} before it was ready")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} is not ready after {seconds:g} s")
        time.sleep(0.02)


def _leave(number, _frame):
    # A second signal must not interrupt the clearing up.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    progress(f"ending on {signal.Signals(number).name}; clearing up")
    sys.exit(128 + number)
