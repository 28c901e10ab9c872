#!/usr/bin/env python3
"""Who gets what inside one limit of 1000 IOPS: greedy and polite clients of one server."""

import dataclasses
import sys

from lib import fio, servers
from lib.comparison import Comparison, Metric, arguments
from lib.numbers import jain, percentile
from lib.usage import Disturbance

LIMIT = 1000
BLOCK = 4096
# Long enough for nbdkit's two seconds of burst, and for a client that came late to have caught up.
RAMP_SECONDS = 3


@dataclasses.dataclass(frozen=True)
class Client:
    """One process with its connections, each at the same queue depth."""

    kind: str
    depth: int
    connections: int = 1


CASES = {
    "queue depth 32 against 1": [Client("greedy", 32), Client("polite", 1)],
    "8 connections against 1": [Client("greedy", 1, connections=8), Client("polite", 1)],
    "64 clients, queue depths 1, 2, 4 and 8": [
        client for client in (Client("polite", 1), Client("middle", 2), Client("middle", 4), Client("greedy", 8))
        for _ in range(16)
    ],
}

METRICS = [
    Metric("iops", "IOPS", "{:.0f}"),
    Metric("iops_greedy", "a greedy client", "{:.1f}"),
    Metric("iops_polite", "a polite one", "{:.1f}"),
    Metric("polite_share_percent", "of its due %", "{:.1f}"),
    Metric("latency_us_polite_p99", "polite p99 ms", "{:.2f}", 1000),
    Metric("jain_index", "Jain", "{:.3f}"),
]


def main():
    options = arguments(
        description=__doc__ + "\n\n4 KiB random reads. A client is a process; its due is the limit divided by the number"
        "\nof clients. Jain's index over the clients' rates is 1 when all are equal.",
        examples=[
            "bench/fairness.py                         all systems, three rounds of ten seconds",
            "bench/fairness.py --quick --only peers    does it work without Weir?",
            "bench/fairness.py --only weir,nbdkit",
        ],
        seconds=10,
        quick_seconds=3,
        rounds=3,
    )

    def nbdkit(place, image, _clients):
        # It knows bits a second only; all requests here have one size, so that is a limit of I/Os too.
        return servers.nbdkit(place, "file", image, f"rate={LIMIT * BLOCK * 8}", filters=["rate"])

    systems = {
        # From the page cache, as the others.
        "weir": lambda place, image, clients: servers.weir(place, image, options, f"riops={LIMIT}", direct="off"),
        "nbdkit-rate": nbdkit,
        "qemu": lambda place, image, clients: servers.qemu(place, image, {"iops-read": LIMIT}),
        "qemu-exports": lambda place, image, clients: servers.qemu(place, image, {"iops-read": LIMIT}, exports=clients),
    }

    def measure(place, clients, start):
        with start(place, place.image(256), len(clients)) as server:
            disturbance = Disturbance()
            ran = fio.run(
                place, _jobs(clients, server), ioengine="nbd", rw="randread", bs=BLOCK, norandommap=True,
                time_based=True, runtime=f"{options.seconds:g}", ramp_time=RAMP_SECONDS,
            )
            return _figures(clients, ran) | {"other_cpu_percent": disturbance.percent(server.cpu_seconds())}

    note = ("qemu-exports: an export for each client, all in one throttle group. The others have one export for all.\n"
            "Least possible polite p99 when all get their due: 2 ms with two clients, 64 ms with 64.")
    comparison = Comparison("fairness", options, METRICS, "latency_us_polite_p99", note)
    return comparison.run(systems, CASES, measure)


def _jobs(clients, server):
    jobs = {}
    for number, client in enumerate(clients):
        for connection in range(client.connections):
            options = {"uri": server.uri(number), "iodepth": client.depth}
            if client.connections > 1:
                # fio's threads share a process: many connections, one client. Its other jobs are processes.
                options["thread"] = True
            jobs[f"client{number}-{connection}"] = options
    return jobs


def _figures(clients, ran):
    rates, latencies = [0.0] * len(clients), []
    for job in ran:
        number = int(job.name.removeprefix("client").split("-")[0])
        rates[number] += job.iops
        if clients[number].kind == "polite":
            latencies += job.latencies_us
    polite = _mean_of("polite", clients, rates)
    return {
        "iops": sum(rates),
        "iops_greedy": _mean_of("greedy", clients, rates),
        "iops_polite": polite,
        "polite_share_percent": 100 * polite * len(clients) / LIMIT,
        "latency_us_polite_p99": percentile(sorted(latencies), 99) if latencies else None,
        "jain_index": jain(rates),
    }


def _mean_of(kind, clients, rates):
    chosen = [rate for client, rate in zip(clients, rates) if client.kind == kind]
    return sum(chosen) / len(chosen)


if __name__ == "__main__":
    sys.exit(main())
