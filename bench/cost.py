#!/usr/bin/env python3
"""What a read costs the server: CPU seconds per million 4 KiB random reads over NBD, from the page cache."""

import sys

from lib import fio, servers
from lib.comparison import Comparison, Metric, arguments
from lib.usage import Disturbance

# Far above what any of them reaches: the limiter works on every request and delays none.
FREE = 10_000_000
LIMITS = f"riops={FREE} wiops={FREE}"

METRICS = [
    Metric("cpu_seconds_per_million", "CPU s per million", "{:.2f}"),
    Metric("iops", "IOPS", "{:.0f}"),
    Metric("server_cpu_percent", "server CPU %", "{:.0f}"),
]


def main():
    options = arguments(
        description=__doc__ + "\n\nTwo fio jobs (two connections) at queue depth 32. Counted is the server process only:"
        "\nuser and system time of all its threads, from the first connection to the last reply."
        "\n`weir` has limits that are active but never reached; so has `qemu-throttled`. `weir-none` and `weir-bfq` have no"
        "\nlimits, and a disk of memory: what bfq costs a server is the difference between these two. `weir-recording` is\n`weir-none` that records.",
        examples=[
            "bench/cost.py                             all systems, three rounds of ten seconds",
            "bench/cost.py --quick --only peers        does it work without Weir?",
            "bench/cost.py --only weir,nbdkit-null --rounds 9",
            "bench/cost.py --only weir-                what bfq costs a server",
        ],
        seconds=10,
        quick_seconds=2,
        rounds=3,
    )

    systems = {
        "weir": lambda place, image: servers.weir(place, image, options, LIMITS, direct="off"),
        "weir-none": lambda place, image: servers.weir_memory(place, image.stat().st_size, options, "none"),
        "weir-bfq": lambda place, image: servers.weir_memory(place, image.stat().st_size, options, "bfq"),
        "weir-recording": lambda place, image: servers.weir_recording(place, image.stat().st_size, options),
        "nbdkit-null": lambda place, image: servers.nbdkit(place, "null", f"size={image.stat().st_size}"),
        "nbdkit-file": lambda place, image: servers.nbdkit(place, "file", image),
        "qemu": servers.qemu,
        "qemu-throttled": lambda place, image: servers.qemu(place, image, {"iops-read": FREE, "iops-write": FREE}),
        "qemu-io_uring": lambda place, image: servers.qemu(place, image, aio="io_uring"),
    }

    def measure(place, _case, start):
        image = place.image(1024)
        with start(place, image) as server:
            disturbance, before = Disturbance(), server.cpu_seconds()
            [job] = fio.run(
                place, {"cost": {}}, ioengine="nbd", uri=server.uri(), rw="randread", bs="4k", iodepth=32, numjobs=2,
                norandommap=True, group_reporting=True, time_based=True, runtime=f"{options.seconds:g}", latencies=False,
            )
            used = server.cpu_seconds() - before
            return {
                "cpu_seconds_per_million": used * 1e6 / job.ios,
                "iops": job.iops,
                "server_cpu_percent": 100 * used / options.seconds,
                "other_cpu_percent": disturbance.percent(used),
            }

    note = (
        "nbdkit-null reads nothing: it answers with zeros. weir-none, weir-bfq and weir-recording have a disk of memory; the others read a"
        "\nfile of random data."
    )
    comparison = Comparison("cost", options, METRICS, "cpu_seconds_per_million", note)
    return comparison.run(systems, {"4 KiB random reads, 2 connections, queue depth 32": None}, measure)


if __name__ == "__main__":
    sys.exit(main())
