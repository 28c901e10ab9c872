"""One disk and who shares it: a scheduler of the kernel's, Weir's behind NBD, Weir's in the lab. All have one face."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable

from lib import fio, lab, rows, servers, startup
from lib.cgroups import Cgroups, weight_line
from lib.disk import KernelDisk
from lib.numbers import percentile

# Requests that Weir lets the disk have at once: its default. The kernel's loop device allows 128.
DEPTH = 32

# Longer than anything that is measured; fio is ended when that is done.
_ENDLESS_SECONDS = 24 * 3600


@dataclasses.dataclass(frozen=True)
class Counted:
    """What a job has done, its clones together, in so many `seconds`."""

    ios: int
    bytes: int
    seconds: float
    latency_us_p50: float | None
    latency_us_p99: float | None

    def bytes_per_second(self):
        return self.bytes / self.seconds

    def ios_per_second(self):
        return self.ios / self.seconds


@dataclasses.dataclass(frozen=True)
class Started:
    """A start-up: how long it took, how much of it was done by then, and what the background moved meanwhile, and after
    it: that is None where there was no background, or the start-up was not over.
    """

    seconds: float
    done_percent: float
    background_bytes_per_second: float
    after_bytes_per_second: float | None = None


@dataclasses.dataclass(frozen=True)
class _Disk:
    """A disk in real time. `at(options)` gives a job's options with the disk's, `address` is for `weir replay`."""

    at: Callable
    address: str
    cpu_seconds: Callable


class _RealTime:
    """What the kernel and `weir serve` have in common: fio loads them, and the clock is the wall's."""

    def __init__(self, options):
        self._options = options

    def run(self, place, row):
        """Each job of the row, by name, as `Counted`; and the CPU time of the server, in seconds."""
        seconds = self._options.seconds * row.seconds_factor
        with self._open(place, row.weights) as disk:
            with contextlib.ExitStack() as around:
                loads, begun = [], None
                for delay, jobs in _by_delay(row.jobs):
                    if loads:
                        loads[0].hold(begun + delay - time.time())
                    loads.append(around.enter_context(self._load(place, disk, jobs)))
                    begun = begun or time.time()
                loads[0].hold(begun + row.warm_seconds + seconds - time.time())
                completions = {}
                for load in loads:
                    completions |= load.stop()
            server_cpu = disk.cpu_seconds()
        opens = begun + row.warm_seconds
        return {name: _counted(each, opens, opens + seconds) for name, each in completions.items()}, server_cpu

    def start(self, place, parts, background, cap_seconds):
        """`Started`, with the jobs of `background` around it; and the CPU time of the server, in seconds."""
        with self._open(place, {}) as disk, contextlib.ExitStack() as around:
            load = None
            if background:
                load = around.enter_context(self._load(place, disk, background))
                load.hold(rows.WARM_SECONDS)
            begun = time.time()
            seconds, done = startup.replay(place, parts, disk.address, self._options, cap_seconds)
            ended = closes = time.time()
            completions = {}
            if load:
                if done >= 100:
                    load.hold(self._options.seconds)
                    closes = time.time()
                completions = load.stop()
            server_cpu = disk.cpu_seconds()
        after = _moved(completions, ended, closes) if closes > ended else None
        return Started(seconds, done, _moved(completions, begun, ended), after), server_cpu

    def _load(self, place, disk, jobs):
        jobs = {name: disk.at(options) for name, options in jobs.items()}
        # One log of three is enough.
        return fio.Load(place, jobs, **rows.COMMON, runtime=_ENDLESS_SECONDS, disable_lat=1, disable_slat=1)


def _by_delay(jobs):
    """Jobs by how much later than the first ones they begin, in order. fio counts a `startdelay` from its own start, and
    takes longer than that to start a thousand processes: then the late ones would begin with the others.
    """
    by_delay = {}
    for name, job in jobs.items():
        job = dict(job)
        by_delay.setdefault(job.pop("startdelay", 0), {})[name] = job
    return sorted(by_delay.items())


def _weight(weight, version):
    return [weight_line(version, weight)]


class Kernel(_RealTime):
    """The emulated disk as a loop device over `weir disk mount`, under a scheduler of the kernel's."""

    def __init__(self, options, scheduler, **tunables):
        super().__init__(options)
        self._scheduler, self._tunables = scheduler, tunables

    @contextlib.contextmanager
    def _open(self, place, weights):
        options = self._options
        with (
            KernelDisk(place, options.disk, self._scheduler, options.weir, self._tunables) as disk,
            Cgroups({name: functools.partial(_weight, each) for name, each in weights.items()}) as cgroups,
        ):
            def at(job):
                job = {"ioengine": "psync", "filename": disk.path, **job}
                if "cgroup" in job:
                    job["exec_prerun"] = cgroups.join(job.pop("cgroup"))
                return job

            yield _Disk(at, disk.path, disk.cpu_seconds)


class Weir(_RealTime):
    """`weir serve` with the emulated disk; each process has a connection, and so is a client."""

    def __init__(self, options, scheduler):
        super().__init__(options)
        self._scheduler = scheduler

    @contextlib.contextmanager
    def _open(self, place, weights):
        disk, scheduler = self._options.disk, self._scheduler
        with servers.weir_shared(place, disk, self._options, scheduler, DEPTH, weights) as server:
            def at(job):
                job = dict(job)
                number = list(weights).index(job.pop("cgroup")) if weights else 0
                return {"ioengine": "nbd", "uri": server.uri(number), **job}

            yield _Disk(at, server.uri(), server.cpu_seconds)


class Lab:
    """The same engine and the same disk in virtual time: no machine takes part, and each run is like the last."""

    def __init__(self, options, scheduler):
        self._options, self._scheduler = options, scheduler

    def run(self, place, row):
        """As in real time. Nothing is served, so that takes no time."""
        report = self._run(place, write_row(place.fresh("row", ".toml"), self._options, row))
        return {job["job"]: _from_lab(job) for job in report["jobs"]}, 0.0

    def start(self, place, parts, background, cap_seconds):
        """As in real time. Two runs, alike until the start-up ends, where the second one's background ends too."""
        # Its background has to last only as long as the start-up may.
        first = self._start(place, parts, background, cap_seconds, cap_seconds)
        ours = [job for job in first if job["job"].startswith(_START)]
        seconds = max(job["runtime_ns"] for job in ours) / 1e9
        done = 100 * sum(job["read"]["ios"] for job in ours) / startup.requests(parts)
        moved, after = 0, None
        if background:
            second = self._start(place, parts, background, cap_seconds, f"{round(seconds * 1e6)}us")
            moved = _of_background(second)
            if done >= 100:
                after = (_of_background(first) - moved) / (cap_seconds - seconds)
        return Started(seconds, done, moved / seconds, after), 0.0

    def _start(self, place, parts, background, cap_seconds, background_runtime):
        path = write_start(
            place.fresh("start", ".toml"), self._options, "A start-up.", parts, background, cap_seconds,
            background_runtime,
        )
        return self._run(place, path)["jobs"]

    def _run(self, place, path):
        return lab.run(place, self._options, path, "--scheduler", self._scheduler, "--depth", DEPTH)


_START = "start-up"


def write_row(path, options, row):
    """Writes a row as a scenario of the lab's to `path`, and returns it."""
    # Clones are reported together, jobs are not.
    jobs = {name: {"new_group": 1, **job} for name, job in row.jobs.items()}
    seconds = options.seconds * row.seconds_factor
    path.write_text(lab.scenario(
        row.about, options.disk, jobs, row.weights,
        **rows.COMMON, group_reporting=1, ramp_time=row.warm_seconds, runtime=f"{round(seconds * 1e6)}us",
    ), encoding="utf-8")
    return path


def write_start(path, options, about, parts, background, cap_seconds, background_runtime):
    """Writes a start-up as a scenario of the lab's to `path`, and returns it. The background begins before it."""
    ramp = {"ramp_time": rows.WARM_SECONDS, "runtime": background_runtime}
    jobs = {name: {**rows.COMMON, **ramp, **job} for name, job in background.items()}
    for number, part in enumerate(parts):
        jobs[f"{_START}-{number}"] = {
            "read_iolog": part, "replay_no_stall": 1, "direct": 1, "runtime": cap_seconds,
            **({"startdelay": rows.WARM_SECONDS} if background else {}),
        }
    path.write_text(lab.scenario(about, options.disk, jobs, {}), encoding="utf-8")
    return path


def _of_background(jobs):
    """The bytes of a report's jobs that are not the start-up's."""
    return sum(_from_lab(job).bytes for job in jobs if not job["job"].startswith(_START))


def _moved(completions, opens, closes):
    """Bytes a second of all jobs."""
    return sum(_counted(each, opens, closes).bytes_per_second() for each in completions.values())


def _counted(completions, opens, closes):
    """What ended from `opens` to `closes`. Latencies are of all that was under way then, however long it waited."""
    within = [each for each in completions if opens <= each.at_seconds < closes]
    latencies = sorted(
        each.latency_us for each in completions
        if opens <= each.at_seconds and each.at_seconds - each.latency_us / 1e6 < closes
    )
    return Counted(
        ios=len(within),
        bytes=sum(each.bytes for each in within),
        seconds=closes - opens,
        latency_us_p50=percentile(latencies, 50) if latencies else None,
        latency_us_p99=percentile(latencies, 99) if latencies else None,
    )


def _from_lab(job):
    ways = [job["read"], job["write"]]
    [way] = [way for way in ways if way["ios"]] or ways[:1]
    seconds = max(job["runtime_ns"], 1) / 1e9
    return Counted(way["ios"], way["bytes"], seconds, way["latency_us_p50"], way["latency_us_p99"])
