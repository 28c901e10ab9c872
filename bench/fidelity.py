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
from lib.numbers import percentile
from lib.quiet import QuietCpus
from lib.usage import Disturbance

MIB = 1 << 20

# Requests that the server and the lab let the disk have at once; the kernel's loop device allows 128.
DEPTH = 32

# How far the lab may be off, in percent, against `weir serve`.
AIMS = {"bytes_per_second": 5, "latency_us_p50": 5, "latency_us_p99": 10}

# The kernel's throttle of limits, which are not met as `pace` meets them: the lab takes its profile of that kernel.
KERNEL = "6.12"


@dataclasses.dataclass(frozen=True)
class Case:
    """A fio job on a disk, perhaps with limits by the keys of io.max."""

    disk: str
    job: dict
    limits: dict

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

# A flash disk that was never written answers reads without looking at its flash.
DISKS = ("hdd7200", "ssd-sata,state=full")

# A disk that takes no time: what is left is the way to it, of which the lab has nothing.
WAY = "null,latency=0ns,size=1G"

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
        f"\nTo reach against `weir serve`: within {AIMS['bytes_per_second']} % for throughput and p50,"
        f" {AIMS['latency_us_p99']} % for p99.",
        examples=[
            "bench/fidelity.py                                     all jobs and disks, 60 s each",
            "bench/fidelity.py --jobs randread-1,randread-32       some",
            "bench/fidelity.py --disks hdd7200 --only lab,weir     without the kernel",
            "bench/fidelity.py --quiet-cpus                        where other work disturbs",
            "bench/fidelity.py --quick                             does it work?",
        ],
        seconds=60,
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
    cases = {f"{disk} {name}": Case(disk, *JOBS[name]) for disk in disks for name in jobs}
    cases["the way alone"] = Case(WAY, *JOBS["randread-1"])
    systems = {
        "lab": lambda place, case: _lab(place, case, options, ["pace"]),
        "lab-slice": lambda place, case: _lab_as_kernel(place, case, options),
        "weir-serve": lambda place, case: _serve(place, case, options),
        "kernel-none": lambda place, case: _kernel(place, case, options, "none"),
        "kernel-mq-deadline": lambda place, case: _kernel(place, case, options, "mq-deadline"),
    }
    note = "the way alone: randread-1 on a disk that takes no time.\n"
    note += f"lab-slice is the lab with the throttle of Linux {KERNEL}, for the kernel's rows of jobs with limits."
    note += "".join(f"\nskipped: {disk}: weir disk list does not know it" for disk in absent)
    if options.quiet_cpus:
        note += "\nCPUs: kept awake; servers and clients run before everything else, where that is permitted."

    def measure(place, case, system):
        with QuietCpus(place, options.quiet_cpus) as quiet:
            disturbance, awake = Disturbance(), quiet.cpu_seconds()
            done = system(place, case)
            if done is None or isinstance(done, dict):
                return done
            job, server_cpu = done
            return _figures(job, disturbance.percent(server_cpu + quiet.cpu_seconds() - awake))

    def conclude(medians):
        return _conclude(medians, cases)

    return Comparison("fidelity", options, METRICS, None, note, conclude=conclude).run(systems, cases, measure)


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
    if listed.returncode != 0:
        return list(DISKS[:1]), list(DISKS[1:])
    known = {disk["name"] for disk in json.loads(listed.stdout)}
    there = [disk for disk in DISKS if disk.split(",")[0] in known]
    return there, [disk for disk in DISKS if disk not in there]


def _job(case, options):
    everything = {"direct": 1, "time_based": 1, "runtime": f"{options.seconds:g}", "randseed": options.seed}
    return everything | case.job


def _lab_as_kernel(place, case, options):
    """The lab with the kernel's throttle, where there is something to throttle."""
    return _lab(place, case, options, ["slice", "--kernel", KERNEL]) if case.limits else None


def _lab(place, case, options, limiter):
    """The job in the lab, from a job file."""
    if case.disk == WAY:
        return None
    path = place.fresh("job", ".fio")
    path.write_text(lab.job_file({"fidelity": _job(case, options)}, ioengine="libaio"), encoding="utf-8")
    flags = ["--disk", case.disk, "--depth", DEPTH, "--scheduler", "none", "--seed", options.seed]
    if case.limits:
        flags += ["--max", case.max(), "--limiter", *limiter]
    report = lab.run(place, options, path, *flags, form="fio-json")
    [entry] = report["jobs"]
    way = entry["read"] if entry["read"]["total_ios"] else entry["write"]
    quantiles = way["clat_ns"]["percentile"]
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
    [job] = fio.run(place, {"fidelity": _job(case, options)}, until_seconds=options.seconds, **how)
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


def _conclude(medians, cases):
    """The lab's error against each system, as text and as JSON. `medians` is by case and system."""
    errors = []
    for name, case in cases.items():
        for system in ("weir-serve", "kernel-none", "kernel-mq-deadline"):
            twin = "lab-slice" if case.limits and system.startswith("kernel") else "lab"
            real, lab = medians.get((name, system)), medians.get((name, twin))
            if real and lab:
                off = {key: 100 * (lab[key] / real[key] - 1) for key in AIMS}
                is_reached = all(abs(off[key]) <= AIMS[key] for key in AIMS)
                errors.append({"case": name, "system": system, "lab": twin,
                               "error_percent": off, "reached": is_reached})
    if not errors:
        return "", errors
    rows = [["lab against", "throughput %", "p50 %", "p99 %", "within 5, 5, 10 %"]]
    for error in errors:
        off = [f"{error['error_percent'][key]:+.1f}" for key in AIMS]
        rows.append([f"{error['case']} {error['system']}", *off, "yes" if error["reached"] else "no"])
    return f"fidelity: error of the lab\n\n{table(rows)}", errors


if __name__ == "__main__":
    sys.exit(main())
