"""fio: jobs out, figures in."""

import contextlib
import dataclasses
import json
import math
import shutil
import signal
import subprocess
import typing

from lib.numbers import percentile
from lib.workplace import end, wait_for

# How fio's logs call it.
_READ = 0

# All its processes are there by then.
_START_SECONDS = 120.0


@dataclasses.dataclass
class Job:
    """What one job did. Latencies are completion latencies in µs, one for each I/O, ascending.

    `ios`, `iops` and `latency_us_mean` are of reads; `all_iops` and `bytes_per_second` are of everything, and so is
    `latencies_us`, of which `reads_us` and `writes_us` are the parts.
    """

    name: str
    ios: int
    iops: float
    latency_us_mean: float
    latencies_us: list
    reads_us: list
    writes_us: list
    all_iops: float
    bytes_per_second: float

    def latency_us(self, percent):
        """Exact, from the log of every I/O: fio's own percentiles come from buckets 1.5 % wide."""
        return percentile(self.latencies_us, percent)


class Completion(typing.NamedTuple):
    """An I/O that ended at `at_seconds` of Unix time, to the millisecond, after `latency_us`."""

    at_seconds: float
    latency_us: float
    is_read: bool
    bytes: int


class Load(contextlib.ExitStack):
    """fio with jobs as for `run`, from entering, when all are there, until `stop`, or until the `runtime` among the options
    is over.
    """

    def __init__(self, place, jobs, **options):
        super().__init__()
        self._place, self._jobs, self._options = place, jobs, options

    def __enter__(self):
        super().__enter__()
        self._logs = self._place.fresh("fio")
        self._logs.mkdir()
        self.callback(shutil.rmtree, self._logs, ignore_errors=True)
        try:
            command = _command(self._logs, self._jobs, {**self._options, "log_unix_epoch": 1})
            self._process = self._place.spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                              cwd=self._logs)
        except BaseException:
            self.close()
            raise
        self.callback(end, self._process)
        try:
            wait_for("fio with all its jobs", self._has_all, self._process, _START_SECONDS)
        except BaseException:
            self.close()
            raise
        return self

    def _has_all(self):
        """Whether all processes are there: a thousand take long to start where others work too."""
        try:
            with open(f"/proc/{self._process.pid}/task/{self._process.pid}/children", encoding="ascii") as children:
                there = len(children.read().split())
        except FileNotFoundError:
            # It has ended, or the kernel does not tell (CONFIG_PROC_CHILDREN): then the warm-up has to do.
            return self._process.poll() is None
        return there >= sum(job.get("numjobs", 1) for job in self._jobs.values())

    def hold(self, seconds):
        """Lets it work for `seconds`, and fails if it ends before they are over."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        self.stop()
        raise RuntimeError("fio has ended before its time")

    def stop(self):
        """Ends the jobs, waits for what is under way, and returns each job's `Completion`s, those of its clones too."""
        if self._process.poll() is None:
            # Once: a second signal would make it give up what it knows.
            self._process.send_signal(signal.SIGINT)
        out, errors = self._process.communicate()
        # 128 is how fio ends on a signal.
        if self._process.returncode not in (0, 128) or "{" not in out:
            said = (errors or out).strip()[-600:]
            raise RuntimeError(f"fio failed with status {self._process.returncode}: {said}")
        for entry in json.loads(out[out.index("{"):])["jobs"]:
            _check(entry)
        return {name: list(_completions(self._logs, name)) for name in self._jobs}


def run(place, jobs, before=None, until_seconds=None, log="clat", **options):
    """Runs fio with one section for each of `jobs` (name -> options) and returns a list of `Job`s.

    `options` hold for all of them; a value of True gives an option without value, and `latencies=False` keeps no
    log of every I/O, for jobs with millions of them. `before` runs in the new process before fio does. Latencies are of
    fio's log `log`: "clat" is from when an I/O was submitted, "lat" from when its submission began. Those that are noted
    later than `until_seconds` after a job's start are left out: when its time is over fio waits for all that is under
    way, and notes the time of the last one for each.
    """
    logs = place.fresh("fio")
    logs.mkdir()
    try:
        return _run(place, logs, jobs, before, until_seconds, log, options)
    finally:
        shutil.rmtree(logs, ignore_errors=True)


def _run(place, logs, jobs, before, until_seconds, log, options):
    command = _command(logs, jobs, options)
    process = place.spawn(command, before=before, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=logs)
    try:
        out, errors = process.communicate()
    finally:
        # Interrupted, it must go before what it uses does: a cgroup with a process in it cannot be removed.
        end(process)
    if process.returncode != 0:
        raise RuntimeError(f"fio failed with status {process.returncode}: {(errors or out).strip()[-600:]}")
    # fio writes notes ahead of its JSON.
    report = json.loads(out[out.index("{"):])
    until_ms = math.inf if until_seconds is None else 1000 * until_seconds
    return [_job(entry, logs, until_ms, log) for entry in report["jobs"]]


def _command(logs, jobs, options):
    command = ["fio", "--output-format=json", "--eta=never"]
    for name, own in jobs.items():
        command += [f"--name={name}"]
        everything = {**options, **own}
        if everything.pop("latencies", True):
            everything["write_lat_log"] = logs / name
        command += [f"--{key}" if value is True else f"--{key}={value}" for key, value in everything.items()]
    return command


def _job(entry, logs, until_ms, log):
    _check(entry)
    read = entry["read"]
    latencies = [
        (each.is_read, each.latency_us)
        for each in _completions(logs, entry["jobname"], log) if round(1000 * each.at_seconds) <= until_ms
    ]
    return Job(
        name=entry["jobname"],
        ios=read["total_ios"],
        iops=read["iops"],
        latency_us_mean=read["clat_ns"]["mean"] / 1000,
        latencies_us=sorted(latency for _, latency in latencies),
        reads_us=sorted(latency for is_read, latency in latencies if is_read),
        writes_us=sorted(latency for is_read, latency in latencies if not is_read),
        all_iops=read["iops"] + entry["write"]["iops"],
        bytes_per_second=read["bw_bytes"] + entry["write"]["bw_bytes"],
    )


def _check(entry):
    if entry["error"]:
        raise RuntimeError(f"fio's job {entry['jobname']} failed with errno {entry['error']}")


def _completions(logs, name, log="clat"):
    # Lines of "time_ms, latency_ns, direction, size, ...", one for each I/O; a job's clones have logs 2, 3, ...
    for path in sorted(logs.glob(f"{name}_{log}.*.log")):
        with open(path, encoding="ascii") as lines:
            for line in lines:
                time_ms, latency, direction, size = line.split(",", 4)[:4]
                yield Completion(int(time_ms) / 1000, int(latency) / 1000, int(direction) == _READ, int(size))
