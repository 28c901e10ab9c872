#!/usr/bin/env python3
"""Whether the lab tells the truth: the same jobs in the lab, on `weir serve`, and on the kernel."""

import contextlib
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
from lib.way import PLAIN, SECONDS as WAY_SECONDS, Disks, Ways

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
    """A fio job on a disk, perhaps with limits by the keys of io.max; how many seconds, and the disks for its way."""

    name: str
    disk: str
    job: dict
    limits: dict
    seconds: float
    of_way: Disks
    rounds: int = 1

    def max(self):
        """The limits as Weir's flags take them."""
        return " ".join(f"{key}={limit}" for key, limit in self.limits.items())


def _random(depth, **more):
    return {"rw": "randread", "bs": "4k", "iodepth": depth, "norandommap": 1, **more}


def _sequential(rw, bs, **more):
    return {"rw": rw, "bs": bs, "iodepth": 4, **more}


JOBS = {
    "read": (_sequential("read", "128k"), {}),
    # Again and again over the same gibibyte, which fits in memory, and has been written once before.
    "write": (_sequential("write", "128k", size="1g"), {}),
    "randread-1": (_random(1), {}),
    "randread-8": (_random(8), {}),
    "randread-32": (_random(32), {}),
    "mixed-8": (_random(8, rw="randrw", rwmixread=70), {}),
    "read-4M": (_sequential("read", "64k"), {"rbps": 4 * MIB}),
    "randread-32-100": (_random(32), {"riops": 100}),
}

# Which part of the seconds is enough on a disk, where a request may take a hundredth of the time, so that chance evens
# out sooner; how many rounds instead of one, where what the way takes is another from one minute to the next; and the disks
# for its way. One with platters hides what computing it takes and when it wakes a server up; a
# flash disk does not, so that there it is the same model with other times, which add up to what `way.DISK_US` says. One that
# was never written answers without looking at its flash.
DISKS = {
    "hdd7200": (1, 1, PLAIN),
    "ssd-sata,state=full": (0.15, 6, Disks(
        timed="ssd-sata,state=full,read=40us,latency=35us",
        timeless="ssd-sata,state=full,overhead=0ns,read=0ns,bus=90G,interface=90G,latency=0ns",
    )),
}

# Which system's way the lab is given, by its name among the systems, and which of them it is held against.
TWINS = {
    "lab": ("weir-serve", ["weir-serve"]),
    "lab-kernel": ("kernel-none", ["kernel-none", "kernel-mq-deadline"]),
}

# What is a server and its client. The kernel's rows are the work of more threads than that.
SERVERS = ["weir-serve"]

# A twin comes after the system whose way it is given.
SYSTEMS = ["weir-serve", "lab", "kernel-none", "kernel-mq-deadline", "lab-kernel"]

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
        "\nWhat the way to the disk takes is measured just before and after each, with other jobs on other disks, and"
        "\ntold to the lab."
        f"\nTo reach against `weir serve`: within {AIMS['bytes_per_second']} % for throughput and p50,"
        f" {AIMS['latency_us_p99']} % for p99.",
        examples=[
            "bench/fidelity.py                                     all jobs and disks, some 40 minutes",
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
    cases = {case.name: case for case in (_case(disk, name, options) for disk in disks for name in jobs)}
    real = {
        "weir-serve": lambda place, case: _serve(place, case, options),
        "kernel-none": lambda place, case: _kernel(place, case, options, "none"),
        "kernel-mq-deadline": lambda place, case: _kernel(place, case, options, "mq-deadline"),
    }
    ways = Ways(
        lambda place, system, disk, depth: real[system](place, _of_way(disk, depth))[0],
        lambda place, disk, depth, way: _lab(place, _of_way(disk, depth), options, way, ["pace"])["ios_per_second"],
    )
    throttles = {"lab": ["pace"], "lab-kernel": ["slice", "--kernel", KERNEL]}
    note = f"The lab's figures are medians of {LAB_RUNS} runs with dice of their own in each round. lab-kernel has the way of"
    note += f" kernel-none,\nand the throttle of Linux {KERNEL} for limits."
    note += "".join(f"\nskipped: {disk}: weir disk list does not know it" for disk in absent)
    if options.quiet_cpus:
        note += "\nCPUs: kept awake; servers and clients have the largest share of them (niceness -20), where that is permitted,"
        note += "\nand weir serve has one and fio another, where there are two."

    def measure(place, case, name):
        if name in TWINS:
            twin_of, _ = TWINS[name]
            way = ways.of(place, twin_of, case.name)
            # Held against nothing, the kernel's twin has nothing to say.
            return _lab(place, case, options, way, throttles[name]) if way or name == "lab" else None
        quiet = QuietCpus(place, options.quiet_cpus, sides=name in SERVERS, busy=True)
        with quiet, contextlib.ExitStack() as around:
            if name in (twin_of for twin_of, _ in TWINS.values()):
                around.enter_context(ways.around(place, name, case.name, case.job["iodepth"], case.of_way))
            disturbance, awake = Disturbance(), quiet.cpu_seconds()
            job, server_cpu = real[name](place, case)
            return _figures(job, disturbance.percent(server_cpu + quiet.cpu_seconds() - awake))

    def conclude(medians):
        return _conclude(medians, cases, ways)

    times = {name: case.rounds for name, case in cases.items()}
    comparison = Comparison("fidelity", options, METRICS, None, note, conclude=conclude, times=times)
    return comparison.run({name: name for name in SYSTEMS}, cases, measure)


def _more(parser):
    parser.add_argument("--jobs", metavar="LIST", help=f"by commas, of {','.join(JOBS)}")
    parser.add_argument("--disks", metavar="LIST", help=f"by blanks, as --disk takes them (default {' '.join(DISKS)})")
    parser.add_argument("--quiet-cpus", action="store_true",
                        help="keep the processors awake, give servers and clients the largest share of them, and weir serve and "
                        "fio one each")
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


def _case(disk, name, options):
    part, rounds, of_way = DISKS.get(disk, (1, 1, PLAIN))
    job, limits = JOBS[name]
    return Case(f"{disk} {name}", disk, job, limits, max(1, options.seconds * part), of_way, rounds)


def _of_way(disk, depth):
    return Case(f"the way, depth {depth}", disk, _random(depth), {}, WAY_SECONDS, PLAIN)


def _job(case, options):
    everything = {"direct": 1, "time_based": 1, "runtime": f"{1000 * case.seconds:.0f}ms", "randseed": options.seed}
    return everything | case.job


def _lab(place, case, options, way, limiter):
    """The job in the lab, from a job file: the middle of several runs."""
    runs = [_lab_once(place, case, options, way, limiter, options.seed + turn) for turn in range(LAB_RUNS)]
    return {name: median([run[name] for run in runs]) for name in runs[0]}


def _lab_once(place, case, options, way, limiter, seed):
    job = _job(case, options) | {"randseed": seed}
    path = place.fresh("job", ".fio")
    path.write_text(lab.job_file({"fidelity": job}, ioengine="libaio"), encoding="utf-8")
    flags = ["--disk", case.disk, "--depth", DEPTH, "--scheduler", "none", "--seed", seed]
    if case.limits:
        flags += ["--max", case.max(), "--limiter", *limiter]
    if way:
        flags += way.flags()
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
    if "size" in case.job:
        # Memory that an emulated disk writes for the first time may be the host's first, too: up to a millisecond a request.
        fio.run(place, {"first": {**case.job, "direct": 1, "latencies": False}}, **how)
    # As the lab counts, from when the process wants the I/O: submitting it is a part of the way.
    how |= {"until_seconds": case.seconds, "log": "lat"}
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


def _conclude(medians, cases, ways):
    """The ways, and the lab's error against each system, as text and as JSON. `medians` is by case and system."""
    errors = []
    for name in cases:
        for twin, (_, systems) in TWINS.items():
            for system in systems:
                real, told = medians.get((name, system)), medians.get((name, twin))
                if real and told:
                    off = {key: 100 * (told[key] / real[key] - 1) for key in AIMS}
                    is_reached = all(abs(off[key]) <= AIMS[key] for key in AIMS)
                    errors.append({"case": name, "system": system, "lab": twin,
                                   "error_percent": off, "reached": is_reached})
    conclusion = {"ways": ways.as_json(), "errors": errors}
    parts = []
    if conclusion["ways"]:
        parts.append(table(list(ways.report())))
    if errors:
        rows = [["lab against", "throughput %", "p50 %", "p99 %", "within 5, 5, 10 %"]]
        for error in errors:
            off = [f"{error['error_percent'][key]:+.1f}" for key in AIMS]
            rows.append([f"{error['case']} {error['system']}", *off, "yes" if error["reached"] else "no"])
        parts.append(f"fidelity: error of the lab\n\n{table(rows)}")
    return "\n\n".join(parts), conclusion


if __name__ == "__main__":
    sys.exit(main())
