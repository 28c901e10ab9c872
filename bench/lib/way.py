"""What the way to a disk takes on a system, measured around each job that is compared, and told to the lab.

It is measured on a disk of which all is known, so no job that is compared has a part in it; and just before and just after
each of them, for it is not the same from one minute to the next. It takes a tenth of a millisecond for each read: what is
more, one read at a time, is the way. It has to be some time, for a server that waits for a disk is asleep when it is done.
Or it takes no time: as many reads as then come through, 32 under way, is what the way lets through.

A server with more to do is not asleep as often, so the way is shorter. How much, at some depths, is found by running this
disk in the lab, too, with the way of one read at a time. Where the lab says that as many come through as the way lets, it is
that which is corrected: a server that waits for the disk between its reads has more to do for each.
"""

import contextlib
import dataclasses

from lib.numbers import median, percentile

# Of one run before a job, and of one after it.
SECONDS = 1.5

# What one read at a time takes on the disk that takes time.
DISK_US = 100


# The lab draws from so many times, each the mean of as many of those that were measured.
TIMES = 200

# Where the way is corrected, and how deep what takes no time is asked.
DEPTHS = (8, 32)
DEEP = 32

# Up to here a rate is what the way lets through.
_FULL = 1.05


@dataclasses.dataclass(frozen=True)
class Way:
    """Times that are equally likely, and the part of each that is for one request at a time, in ns."""

    times_ns: list
    each_ns: int

    def flags(self):
        """What tells the lab of it."""
        return ["--set", "way=" + ",".join(f"{time}ns" for time in self.times_ns), "--set", f"way-each={self.each_ns}ns"]


@dataclasses.dataclass(frozen=True)
class Disks:
    """The disk on which all is known, one that takes `DISK_US` for a read and one that takes as good as no time."""

    timed: str
    timeless: str


PLAIN = Disks(f"null,size=1G,latency={DISK_US}us", "null,size=1G,latency=0ns")


@dataclasses.dataclass(frozen=True)
class _Run:
    """The three jobs of one measurement; `deep` at the depth of the job that is compared, if the way is corrected there."""

    alone: object
    no_time: object
    deep: object


class Ways:
    """The ways of systems, by the name of what is compared."""

    def __init__(self, run, in_lab):
        """`run(place, system, disk, depth)` reads at random and gives fio's job; `in_lab(place, disk, depth, way)` does so
        in the lab and gives its IOPS.
        """
        self._run, self._in_lab = run, in_lab
        self._runs, self._told = {}, {}

    @contextlib.contextmanager
    def around(self, place, system, case, depth, disks):
        """Measures before and after what is done inside: `case`, at `depth`."""
        before = self._measure(place, system, depth, disks)
        yield
        self._runs[system, case] = depth, disks.timed, [before, self._measure(place, system, depth, disks)]
        self._told.pop((system, case), None)

    def _measure(self, place, system, depth, disks):
        return _Run(
            alone=self._run(place, system, disks.timed, 1),
            no_time=self._run(place, system, disks.timeless, DEEP),
            deep=self._run(place, system, disks.timed, depth) if depth in DEPTHS else None,
        )

    def of(self, place, system, case):
        """The way around a case; None if it was not measured."""
        if (system, case) in self._runs and (system, case) not in self._told:
            self._told[system, case] = self._tell(place, *self._runs[system, case])
        return self._told.get((system, case))

    def _tell(self, place, depth, disk, runs):
        each_us = _period_us([run.no_time for run in runs])
        times_us = alone(runs)
        way = _way(times_us, each_us)
        if depth not in DEPTHS:
            return way
        told_us = 1e6 / self._in_lab(place, disk, depth, way)
        real_us = _period_us([run.deep for run in runs])
        if told_us <= _FULL * each_us:
            return _way(times_us, real_us)
        return _way([time + depth * (real_us - told_us) for time in times_us], each_us)

    def report(self):
        """Rows of a table with a head: the ways by system and depth, the middle of all that were measured and the ends."""
        groups = {}
        for (system, case), way in self._told.items():
            groups.setdefault((system, self._runs[system, case][0]), []).append(way)
        yield ["the way, as the lab is told", "mean us", "p50 us", "p99 us", "one at a time us"]
        for (system, depth), ways in sorted(groups.items()):
            figures = [
                [sum(way.times_ns) / len(way.times_ns) for way in ways],
                [percentile(sorted(way.times_ns), 50) for way in ways],
                [percentile(sorted(way.times_ns), 99) for way in ways],
                [way.each_ns for way in ways],
            ]
            yield [f"{system}, depth {depth}", *(_middle(each) for each in figures)]

    def as_json(self):
        """The ways that the lab was told of."""
        return [{"system": system, "case": case, "way_times_ns": way.times_ns, "way_each_ns": way.each_ns}
                for (system, case), way in self._told.items()]


def alone(runs):
    """The way's times in us, from what one read at a time took in some runs together."""
    jobs = [run.alone for run in runs]
    reads_us = sorted(read for job in jobs for read in job.reads_us)
    # What fio does between two reads is a part of the way, too.
    own_us = max(0.0, _period_us(jobs) - sum(reads_us) / len(reads_us))
    return [each - DISK_US + own_us for each in means(reads_us, TIMES)]


def _way(times_us, each_us):
    times_ns = [max(0, round(1000 * time)) for time in times_us]
    return Way(times_ns, min(round(1000 * each_us), sum(times_ns) // len(times_ns)))


def _period_us(jobs):
    """From one completion to the next, over all of the jobs, each of the same length."""
    return 1e6 * len(jobs) / sum(job.all_iops for job in jobs)


def means(ordered, count):
    """The means of `count` equal parts of ordered values, or the values themselves where there are no more."""
    edges = [len(ordered) * part // count for part in range(count + 1)]
    parts = [ordered[start:end] for start, end in zip(edges, edges[1:]) if end > start]
    return [sum(part) / len(part) for part in parts]


def _middle(values_ns):
    middle, low, high = (f"{each / 1000:.1f}" for each in (median(values_ns), min(values_ns), max(values_ns)))
    return middle if low == high else f"{middle} ({low}..{high})"
