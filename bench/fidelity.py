#!/usr/bin/env python3
"""Whether the lab tells the truth: the same jobs in the lab, on `weir serve`, and on the kernel."""

import dataclasses
import json
import subprocess
import sys

from lib import fio, lab, servers
from lib.blkthrottle import Limited
from lib.comparison import Comparison, Metric, arguments, table
from lib.disk import KernelDisk
from lib.numbers import median, percentile
from lib.quiet import QuietCpus
from lib.usage import Disturbance

MIB = 1 << 20

# Requests that the server and the lab let the disk have at once; the kernel's loop device allows 128.
DEPTH = 32

# How far the lab may be off, in percent, against `weir serve`.
AIMS = {"bytes_per_second": 5, "latency_us_p50": 5, "latency_us_p99": 10}

# The kernel's throttle of limits, which are not met as `pace` meets them: the lab takes its profile of that kernel.
KERNEL = "6.12"

# Runs in the lab, each with dice of its own. Time is not what they cost, so that chance need not come from them.
LAB_RUNS = 5


@dataclasses.dataclass(frozen=True)
class Case:
    """A fio job on a disk, perhaps with limits by the keys of io.max; `part` of the run's seconds is enough for it."""

    disk: str
    job: dict
    limits: dict
    part: float

    def max(self):
        """The limits as Weir's flags take them."""
        return " ".join(f"{key}={limit}" for key, limit in self.limits.items())


def _random(depth, **more):
    return {"rw": "randread", "bs": "4k", "iodepth": depth, "norandommap": 1, **more}


def _sequential(rw, bs, **more):
    return {"rw": rw, "bs": bs, "iodepth": 4, **more}


JOBS = {
    "read": (_sequential("read", "128k"), {}),
    # Again and again over the same gibibyte, which fits in memory.
    "write": (_sequential("write", "128k", size="1g"), {}),
    "randread-1": (_random(1), {}),
    "randread-8": (_random(8), {}),
    "randread-32": (_random(32), {}),
    "mixed-8": (_random(8, rw="randrw", rwmixread=70), {}),
    "read-4M": (_sequential("read", "64k"), {"rbps": 4 * MIB}),
    "randread-32-100": (_random(32), {"riops": 100}),
}

# Disks, and which part of the seconds is enough: where a request takes a hundredth of the time, chance evens out sooner.
# A flash disk that was never written answers reads without looking at its flash.
DISKS = {"hdd7200": 1, "ssd-sata,state=full": 0.4}

# What the way to a disk takes, measured on disks of which all is known, just before the jobs of each disk, for it is not
# the same from one minute to the next. One takes a tenth of a millisecond for each read: what is more, one read at a
# time, is the way. It has to be some time, for a server that waits for a disk is asleep when it is done. The other takes
# no time: as many reads as then come through, 32 under way, is what the way lets through.
WAY_DISK_US = 100
# The lab draws from so many times, each the mean of as many of those that were measured.
WAY_TIMES = 200
WAY_PART = 0.4
# A server with more to do is not asleep as often, so the way is shorter. How much, at each of these depths, is found by
# running the first of these disks in the lab, too, with the way of one at a time.
WAY_DEPTHS = (8, 32)
_WAY_DISK = f"null,latency={WAY_DISK_US}us,size=1G"
WAY_ALONE = Case(_WAY_DISK, _random(1), {}, WAY_PART)
WAY_DEEP = {depth: Case(_WAY_DISK, _random(depth), {}, WAY_PART) for depth in WAY_DEPTHS}
WAY_EACH = Case("null,latency=0ns,size=1G", _random(32), {}, WAY_PART)
WAYS = {
    "one by one": WAY_ALONE,
    "no latency, depth 32": WAY_EACH,
    **{f"depth {depth}": case for depth, case in WAY_DEEP.items()},
}

# Which system's way the lab is given, by its name among the systems, and which of them it is held against.
TWINS = {
    "lab": ("weir-serve", ["weir-serve"]),
    "lab-kernel": ("kernel-none", ["kernel-none", "kernel-mq-deadline"]),
}

METRICS = [
    Metric("bytes_per_second", "MiB/s", "{:.3f}", MIB),
    Metric("ios_per_second", "IOPS", "{:.1f}"),
    Metric("latency_us_p50", "p50 ms", "{:.3f}", 1000),
    Metric("latency_us_p99", "p99 ms", "{:.3f}", 1000),
]


def main():
    options = arguments(
        description=__doc__ + "\n\nEach job runs in the lab (virtual time), through fio's NBD engine on `weir serve`"
        "\nwith the emulated disk in real time, and on a loop device over `weir disk mount`, with the same disk, below"
        "\nthe kernel's schedulers and its blk-throttle. Latencies are of reads where there are reads, else of writes."
        "\nWhat the way to the disk takes is measured first, with other jobs on other disks, and told to the lab."
        f"\nTo reach against `weir serve`: within {AIMS['bytes_per_second']} % for throughput and p50,"
        f" {AIMS['latency_us_p99']} % for p99.",
        examples=[
            "bench/fidelity.py                                     all jobs and disks, under 15 minutes",
            "bench/fidelity.py --jobs randread-1,randread-32       some",
            "bench/fidelity.py --disks hdd7200 --only lab,weir     without the kernel",
            "bench/fidelity.py --quiet-cpus                        where other work disturbs",
            "bench/fidelity.py --quick                             does it work?",
        ],
        seconds=20,
        quick_seconds=4,
        rounds=1,
        more=_more,
    )
    jobs = options.jobs.split(",") if options.jobs else list(JOBS)
    if options.quick and not options.jobs:
        jobs = ["read", "write", "randread-1", "randread-32", "mixed-8", "randread-32-100"]
    unknown = [name for name in jobs if name not in JOBS]
    if unknown:
        print(f"unknown jobs: {', '.join(unknown)}; there are {', '.join(JOBS)}", file=sys.stderr)
        return 2
    disks, absent = _disks(options)
    chosen, cases = {}, {}
    for disk in disks:
        jobs_of_disk = {f"{disk} {name}": Case(disk, *JOBS[name], DISKS.get(disk, 1)) for name in jobs}
        cases |= {f"the way to {disk}, {name}": case for name, case in WAYS.items()} | jobs_of_disk
        chosen |= jobs_of_disk
    slices = ["slice", "--kernel", KERNEL]
    ways = Ways(lambda place, case, way: _lab(place, case, options, way, ["pace"]))
    systems = {
        "lab": lambda place, case: _lab(place, case, options, ways.of("weir-serve", case), ["pace"]),
        "weir-serve": lambda place, case: _serve(place, case, options),
        "lab-kernel": lambda place, case: _lab(place, case, options, ways.of("kernel-none", case), slices),
        "kernel-none": lambda place, case: _kernel(place, case, options, "none"),
        "kernel-mq-deadline": lambda place, case: _kernel(place, case, options, "mq-deadline"),
    }
    note = f"The lab's figures are medians of {LAB_RUNS} runs with dice of their own. lab-kernel has the way of"
    note += f" kernel-none,\nand the throttle of Linux {KERNEL} for limits."
    note += "".join(f"\nskipped: {disk}: weir disk list does not know it" for disk in absent)
    if options.quiet_cpus:
        note += "\nCPUs: kept awake; servers and clients run before everything else, where that is permitted."

    def measure(place, case, name):
        of_way = case in WAYS.values()
        if of_way and name not in (system for system, _ in TWINS.values()):
            return None
        if name in TWINS:
            # Held against nothing, it has nothing to say.
            is_known = ways.of(TWINS[name][0], case)
            return systems[name](place, case) if is_known or name == "lab" else None
        with QuietCpus(place, options.quiet_cpus) as quiet:
            disturbance, awake = Disturbance(), quiet.cpu_seconds()
            job, server_cpu = systems[name](place, case)
            figures = _figures(job, disturbance.percent(server_cpu + quiet.cpu_seconds() - awake))
        if of_way:
            ways.measured(place, name, case, job)
        return figures

    def conclude(medians):
        return _conclude(medians, chosen, ways)

    comparison = Comparison("fidelity", options, METRICS, None, note, conclude=conclude)
    return comparison.run({name: name for name in systems}, cases, measure)


def _more(parser):
    parser.add_argument("--jobs", metavar="LIST", help=f"by commas, of {','.join(JOBS)}")
    parser.add_argument("--disks", metavar="LIST", help=f"by blanks, as --disk takes them (default {' '.join(DISKS)})")
    parser.add_argument("--quiet-cpus", action="store_true",
                        help="keep the processors awake and let servers and clients run before everything else")
    parser.add_argument("--seed", type=int, default=1, help="of the lab's random choices and fio's (default 1)")


def _disks(options):
    """The disks to run on, and those that were meant but are not there."""
    if options.disks:
        return options.disks.split(), []
    program = options.weir or servers.weir_program()
    listed = subprocess.run([program, "disk", "list", "--format", "json"], capture_output=True, text=True, check=False)
    disks = list(DISKS)
    if listed.returncode != 0:
        return disks[:1], disks[1:]
    known = {disk["name"] for disk in json.loads(listed.stdout)}
    there = [disk for disk in disks if disk.split(",")[0] in known]
    return there, [disk for disk in disks if disk not in there]


class Ways:
    """What the way to a disk takes on each system, from the runs of WAYS. No job that is compared has a part in it."""

    def __init__(self, in_lab):
        """`in_lab` runs a case in the lab with a way."""
        self._in_lab = in_lab
        self._times_ns, self._periods_us, self._longer_us = {}, {}, {}

    def measured(self, place, system, case, job):
        """Takes over a run of one of `WAYS`: the others after that of `WAY_ALONE`."""
        period_us = 1e6 / job.all_iops
        if case == WAY_ALONE:
            # What fio does between two reads is a part of the way, too.
            own_us = max(0.0, period_us - sum(job.reads_us) / len(job.reads_us))
            means = _means(job.reads_us, WAY_TIMES)
            self._times_ns[system] = [round(1000 * max(0.0, each - WAY_DISK_US + own_us)) for each in means]
            self._longer_us = {key: longer for key, longer in self._longer_us.items() if key[0] != system}
        elif case == WAY_EACH:
            self._periods_us[system] = period_us
        elif way := self.of(system, case):
            depth = case.job["iodepth"]
            told_us = 1e6 / self._in_lab(place, case, way)["ios_per_second"]
            self._longer_us[system, depth] = depth * (period_us - told_us)

    def of(self, system, case):
        """The way's times for a case, and the part that is for one request at a time, in ns; None if not measured."""
        times, period_us = self._times_ns.get(system), self._periods_us.get(system)
        if not times or not period_us:
            return None
        longer_ns = 1000 * self._longer_us.get((system, case.job["iodepth"]), 0)
        times = [max(0, round(time + longer_ns)) for time in times]
        return times, min(round(1000 * period_us), sum(times) // len(times))


def _means(ordered, count):
    """The means of `count` equal parts of ordered values, or the values themselves where there are no more."""
    edges = [len(ordered) * part // count for part in range(count + 1)]
    parts = [ordered[start:end] for start, end in zip(edges, edges[1:]) if end > start]
    return [sum(part) / len(part) for part in parts]


def _job(case, options):
    everything = {"direct": 1, "time_based": 1, "runtime": f"{1000 * _seconds(case, options):.0f}ms", "randseed": options.seed}
    return everything | case.job


def _seconds(case, options):
    return max(1, options.seconds * case.part)


def _lab(place, case, options, way_ns, limiter):
    """The job in the lab, from a job file: the middle of several runs."""
    runs = [_lab_once(place, case, options, way_ns, limiter, options.seed + turn) for turn in range(LAB_RUNS)]
    return {name: median([run[name] for run in runs]) for name in runs[0]}


def _lab_once(place, case, options, way_ns, limiter, seed):
    job = _job(case, options) | {"randseed": seed}
    path = place.fresh("job", ".fio")
    path.write_text(lab.job_file({"fidelity": job}, ioengine="libaio"), encoding="utf-8")
    flags = ["--disk", case.disk, "--depth", DEPTH, "--scheduler", "none", "--seed", seed]
    if case.limits:
        flags += ["--max", case.max(), "--limiter", *limiter]
    if way_ns:
        times, each = way_ns
        flags += ["--set", "way=" + ",".join(f"{time}ns" for time in times), "--set", f"way-each={each}ns"]
    [entry] = lab.run(place, options, path, *flags, form="fio-json")["jobs"]
    direction = entry["read"] if entry["read"]["total_ios"] else entry["write"]
    quantiles = direction["clat_ns"]["percentile"]
    return {
        "bytes_per_second": entry["read"]["bw_bytes"] + entry["write"]["bw_bytes"],
        "ios_per_second": entry["read"]["iops"] + entry["write"]["iops"],
        "latency_us_p50": quantiles["50.000000"] / 1000,
        "latency_us_p99": quantiles["99.000000"] / 1000,
        # No clock takes part.
        "other_cpu_percent": 0.0,
    }


def _serve(place, case, options):
    with servers.weir_emulated(place, case.disk, options, case.max(), DEPTH) as server:
        return _run(place, case, options, ioengine="nbd", uri=server.uri()), server.cpu_seconds()


def _kernel(place, case, options, scheduler):
    with KernelDisk(place, case.disk, scheduler, options.weir) as disk:
        how = {"ioengine": "libaio", "filename": disk.path}
        if case.limits:
            with Limited(disk.path, case.limits) as cgroup:
                job = _run(place, case, options, before=cgroup.join, **how)
        else:
            job = _run(place, case, options, **how)
        return job, disk.cpu_seconds()


def _run(place, case, options, **how):
    # As the lab counts, from when the process wants the I/O: submitting it is a part of the way.
    how |= {"until_seconds": _seconds(case, options), "log": "lat"}
    [job] = fio.run(place, {"fidelity": _job(case, options)}, **how)
    return job


def _figures(job, other_cpu_percent):
    latencies = job.reads_us or job.writes_us
    if not latencies:
        raise RuntimeError("fio has done nothing")
    return {
        "bytes_per_second": job.bytes_per_second,
        "ios_per_second": job.all_iops,
        "latency_us_p50": percentile(latencies, 50),
        "latency_us_p99": percentile(latencies, 99),
        "other_cpu_percent": other_cpu_percent,
    }


def _conclude(medians, chosen, ways):
    """The ways, and the lab's error against each system, as text and as JSON. `medians` is by case and system."""
    measured = {(system, case.job["iodepth"]): ways.of(system, case)
                for system, _ in TWINS.values() for case in (WAY_ALONE, *WAY_DEEP.values())}
    errors = []
    for name in chosen:
        for twin, (_, systems) in TWINS.items():
            for system in systems:
                real, told = medians.get((name, system)), medians.get((name, twin))
                if real and told:
                    off = {key: 100 * (told[key] / real[key] - 1) for key in AIMS}
                    is_reached = all(abs(off[key]) <= AIMS[key] for key in AIMS)
                    errors.append({"case": name, "system": system, "lab": twin,
                                   "error_percent": off, "reached": is_reached})
    conclusion = {
        # Those of the last disk.
        "ways": [{"system": system, "depth": depth, "way_times_ns": way[0], "way_each_ns": way[1]}
                 for (system, depth), way in measured.items() if way],
        "errors": errors,
    }
    parts = []
    if conclusion["ways"]:
        rows = [["the way to the last disk, as the lab is told", "mean us", "p50 us", "p99 us", "one at a time us"]]
        for way in conclusion["ways"]:
            times = way["way_times_ns"]
            told = [sum(times) / len(times), percentile(times, 50), percentile(times, 99), way["way_each_ns"]]
            rows.append([f"{way['system']}, depth {way['depth']}", *(f"{time / 1000:.1f}" for time in told)])
        parts.append(table(rows))
    if errors:
        rows = [["lab against", "throughput %", "p50 %", "p99 %", "within 5, 5, 10 %"]]
        for error in errors:
            off = [f"{error['error_percent'][key]:+.1f}" for key in AIMS]
            rows.append([f"{error['case']} {error['system']}", *off, "yes" if error["reached"] else "no"])
        parts.append(f"fidelity: error of the lab\n\n{table(rows)}")
    return "\n\n".join(parts), conclusion


if __name__ == "__main__":
    sys.exit(main())
