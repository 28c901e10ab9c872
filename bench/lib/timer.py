"""The least that any limiter could show on this machine: its job without server, requests or replies.

Run as a process of its own, for its own interpreter:

    python3 -m lib.timer LIMIT THINK_SECONDS SECONDS

It thinks, then sleeps until the next of LIMIT evenly spaced instants a second, again and again, and prints how long
each of these waits took in ns, one a line. Both are sleeps of the kernel's high-resolution timers, without slack.
"""

import ctypes
import gc
import subprocess
import sys
import time

from lib.workplace import ROOT, end

_libc = ctypes.CDLL(None, use_errno=True)
_CLOCK_MONOTONIC, _ABSOLUTE = 1, 1
_PR_SET_TIMERSLACK = 29
_MCL_CURRENT, _MCL_FUTURE = 1, 2


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def run(place, limit, think_seconds, seconds):
    """`waits` of a process of its own, in us."""
    command = [sys.executable, "-m", "lib.timer", limit, think_seconds, seconds]
    process = place.spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT / "bench")
    try:
        out, errors = process.communicate()
    finally:
        end(process)
    if process.returncode != 0:
        raise RuntimeError(f"the timer failed with status {process.returncode}: {errors.strip()[-600:]}")
    return [int(line) / 1000 for line in out.split()]


def waits(limit, think_seconds, seconds):
    """How long each wait took, in ns. As under a limit with a burst, a turn that comes late does not move the next."""
    # By default the kernel may wake a thread 50 us later than it asked for.
    _libc.prctl(_PR_SET_TIMERSLACK, 1)
    gc.disable()
    period, think = 1_000_000_000 // limit, round(think_seconds * 1e9)
    taken = []
    now = turn = time.monotonic_ns()
    end = now + round(seconds * 1e9)
    while turn < end:
        _sleep_until(now + think)
        begun = time.monotonic_ns()
        turn += period
        _sleep_until(turn)
        now = time.monotonic_ns()
        taken.append(now - begun)
    return taken


def _sleep_until(nanoseconds):
    until = _Timespec(*divmod(nanoseconds, 1_000_000_000))
    # An instant that has passed ends at once; signals end the process, so nothing else ends it early.
    failed = _libc.clock_nanosleep(_CLOCK_MONOTONIC, _ABSOLUTE, ctypes.byref(until), None)
    if failed:
        raise OSError(failed, "clock_nanosleep")


if __name__ == "__main__":
    # The kernel may take memory away that was not touched for a while; that this is not permitted is no failure.
    _libc.mlockall(_MCL_CURRENT | _MCL_FUTURE)
    limit_, think_, seconds_ = sys.argv[1:]
    for each in waits(int(limit_), float(think_), float(seconds_)):
        print(each)
