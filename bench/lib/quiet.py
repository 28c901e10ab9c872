"""A machine that wakes up quickly: for telling what is a limiter's own lateness and what is the machine's.

A processor with nothing to do sleeps, and a virtual one is taken off its real one; waking it takes up to milliseconds
then. Here each is kept awake by a process that runs only when nothing else would (SCHED_IDLE), and what is measured
comes before everything else (SCHED_FIFO). Nobody's server runs like this; so it is an option, and for all systems alike.

Of each second, the kernel keeps 50 ms for what comes after that (`sched_rt_runtime_us`), and takes them at once from who
would have more: a pause of 50 ms in each second of a server that is busy all the time. It is told not to, until the
measurement is over; but Linux 6.18 does so all the same (its fair server), and who keeps a processor awake is reason
enough. So what may need all of a processor is not put before everything: it has the largest share (niceness -20).

Where the kernel has sessions share its processors evenly (`sched_autogroup_enabled`), classes and niceness count within a
session only, and who keeps a processor awake has half of it. The kernel is told not to, until the measurement is over, or,
where that is not ours to say, to give that session the least.

A kernel that is not preempted inside a call (CONFIG_PREEMPT_NONE) lets anybody's long call come before them all the same:
whoever looks at all of /proc each second keeps a processor for 1.5 ms. What takes its turns, a client that waits for its
server, can have a processor apart: one that an ordinary process keeps busy, so that the kernel puts others elsewhere.

And its programs stay in memory (lib/resident.py).
"""

import contextlib
import os
import pathlib
import sys

from lib.usage import cpu_seconds
from lib.workplace import end

_PRIORITY = 10
_RESERVE = pathlib.Path("/proc/sys/kernel/sched_rt_runtime_us")
_NO_RESERVE = "-1"
_SESSIONS = pathlib.Path("/proc/sys/kernel/sched_autogroup_enabled")
_NO_SESSIONS = "0"
_OWN_SESSION = pathlib.Path("/proc/self/autogroup")
_LEAST = "19"


class QuietCpus(contextlib.AbstractContextManager):
    """Keeps the processors awake from entering to leaving; also if not `wanted`, when it does nothing.

    `apart`: where there is more than one, and priority, what is measured runs on the last one, and others elsewhere.
    `sides`: where there is more than one, servers run on the first one and all else on the last. (By itself the kernel has
    a server and its client on the same one now, on two then, and a reply takes 18 us longer.)
    `busy`: what is measured may need all of a processor.
    """

    def __init__(self, place, wanted, apart=False, sides=False, busy=False):
        self._place, self._wanted, self._spinners = place, wanted, []
        self._take_priority = _take_share if busy else _take_priority
        cpus = sorted(os.sched_getaffinity(0))
        self._apart = cpus[-1] if apart and len(cpus) > 1 else None
        self._sides = (cpus[0], cpus[-1]) if sides and len(cpus) > 1 else None
        self._said = {}
        self.has_priority = False

    def __enter__(self):
        if self._wanted:
            try:
                self._begin()
            except BaseException:
                self.__exit__()
                raise
        return self

    def _begin(self):
        self.has_priority = _may(self._take_priority)
        self._place.before_each = self._first_of_all
        self._place.keeps_programs = True
        if self._sides:
            self._place.before_server = self._on_its_side
        if self.has_priority:
            self._say(_RESERVE, _NO_RESERVE)
        else:
            # It would take its turns with the one that keeps others off.
            self._apart = None
        # Before any of them is begun: it is looked at when a process begins.
        self._say(_SESSIONS, _NO_SESSIONS)
        for cpu in sorted(os.sched_getaffinity(0)):
            self._spinners.append(self._spin(cpu))

    def __exit__(self, *_):
        self._place.before_each = self._place.before_server = None
        self._place.keeps_programs = False
        for spinner in self._spinners:
            end(spinner)
        self._spinners = []
        for setting, before in self._said.items():
            _set(setting, before)
        self._said = {}

    def cpu_seconds(self):
        """What keeping the processors awake has taken so far: no disturbance, it gives way to everything."""
        return sum(cpu_seconds(spinner.pid) for spinner in self._spinners)

    def _say(self, setting, value):
        """Tells the kernel, until leaving."""
        before = _set(setting, value)
        if before is not None:
            self._said[setting] = before

    def _first_of_all(self):
        if self._apart is not None:
            os.sched_setaffinity(0, {self._apart})
        if self._sides:
            os.sched_setaffinity(0, {self._sides[1]})
        if self.has_priority:
            self._take_priority()

    def _on_its_side(self):
        os.sched_setaffinity(0, {self._sides[0]})

    def _spin(self, cpu):
        def last_of_all():
            os.sched_setaffinity(0, {cpu})
            os.sched_setscheduler(0, os.SCHED_OTHER if cpu == self._apart else os.SCHED_IDLE, os.sched_param(0))
            if cpu != self._apart:
                _set(_OWN_SESSION, _LEAST)

        return self._place.spawn([sys.executable, "-S", "-c", "while True: pass"], before=last_of_all)


def _may(take):
    """Whether we may take that priority, found out in a process that ends at once."""
    child = os.fork()
    if child == 0:
        try:
            take()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _set(setting, value):
    """Sets what the kernel has in the file `setting`, and returns what it was; None if that is not there, or not ours to say.
    """
    try:
        before = setting.read_text(encoding="ascii").strip()
        setting.write_text(value, encoding="ascii")
    except OSError:
        return None
    return before


def _take_priority():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))


def _take_share():
    os.setpriority(os.PRIO_PROCESS, 0, -20)
