"""CPU time: of one process, and of everybody else while we measured."""

import os
import resource
import time

_CPUCLOCK_SCHED = 2


def cpu_seconds(pid):
    """CPU time (user and system) of all threads of a process since its start, ended threads included.

    Read from the process's CPU clock, which counts nanoseconds: /proc/PID/stat has the same sum in ticks of
    10 ms, which is 2 % of a run that uses half a second.
    """
    # The kernel's encoding of another process's clock, as clock_getcpuclockid(3) makes it.
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


class Disturbance:
    """How busy the machine was with what is not ours, between its making and `percent`."""

    def __init__(self):
        self._started = time.monotonic()
        self._busy, self._own = _busy_seconds(), _own_seconds()

    def percent(self, server_cpu_seconds):
        """Other processes' and the hypervisor's share of the machine's CPU time, 0..100.

        Kernel threads that work for us (a loop device's) count as others, so expect a few percent there.
        """
        available = (time.monotonic() - self._started) * os.cpu_count()
        busy = _busy_seconds() - self._busy
        own = _own_seconds() - self._own + server_cpu_seconds
        return max(0.0, 100.0 * (busy - own) / available)


def _busy_seconds():
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds():
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        total += used.ru_utime + used.ru_stime
    return total
