"""fio: jobs out, figures in."""

import dataclasses
import json
import math
import shutil
import subprocess

from lib.numbers import percentile
from lib.workplace import end

# How fio's logs call them.
_READ, _WRITE = 0, 1


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


def run(place, jobs, before=None, until_seconds=None, **options):
    """Runs fio with one section for each of `jobs` (name -> options) and returns a list of `Job`s.

    `options` hold for all of them; a value of True gives an option without value, and `latencies=False` keeps no
    log of every I/O, for jobs with millions of them. `before` runs in the new process before fio does. Latencies that
    are noted later than `until_seconds` after a job's start are left out: when its time is over fio waits for all that
    is under way, and notes the time of the last one for each.
    """
    logs = place.fresh("fio")
    logs.mkdir()
    try:
        return _run(place, logs, jobs, before, until_seconds, options)
    finally:
        shutil.rmtree(logs, ignore_errors=True)


def _run(place, logs, jobs, before, until_seconds, options):
    command = ["fio", "--output-format=json", "--eta=never"]
    for name, own in jobs.items():
        command += [f"--name={name}"]
        everything = {**options, **own}
        if everything.pop("latencies", True):
            everything["write_lat_log"] = logs / name
        command += [f"--{key}" if value is True else f"--{key}={value}" for key, value in everything.items()]
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
    return [_job(entry, logs, until_ms) for entry in report["jobs"]]


def _job(entry, logs, until_ms):
    failed = entry["error"]
    if failed:
        raise RuntimeError(f"fio's job {entry['jobname']} failed with errno {failed}")
    read = entry["read"]
    latencies = _latencies(logs, entry["jobname"], until_ms)
    return Job(
        name=entry["jobname"],
        ios=read["total_ios"],
        iops=read["iops"],
        latency_us_mean=read["clat_ns"]["mean"] / 1000,
        latencies_us=sorted(latency for _, latency in latencies),
        reads_us=sorted(latency for direction, latency in latencies if direction == _READ),
        writes_us=sorted(latency for direction, latency in latencies if direction == _WRITE),
        all_iops=read["iops"] + entry["write"]["iops"],
        bytes_per_second=read["bw_bytes"] + entry["write"]["bw_bytes"],
    )


def _latencies(logs, name, until_ms):
    # Lines of "time_ms, latency_ns, direction, size, ...", one for each I/O; a job's clones have logs 2, 3, ...
    values = []
    for log in sorted(logs.glob(f"{name}_clat.*.log")):
        with open(log, encoding="ascii") as lines:
            for line in lines:
                time_ms, latency, direction = line.split(",", 3)[:3]
                if int(time_ms) <= until_ms:
                    values.append((int(direction), int(latency) / 1000))
    return values
