#!/usr/bin/env python3
"""Who gets what inside one limit of 1000 IOPS: greedy and polite clients of one server."""

import dataclasses
import sys

from lib import fio, servers, timer
from lib.comparison import Comparison, Metric, arguments
from lib.numbers import jain, percentile
from lib.quiet import QuietCpus
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


@dataclasses.dataclass(frozen=True)
class Case:
    """Who shares the limit, and whether the processors are quiet."""

    clients: list
    is_quiet: bool = False

    def is_pair(self):
        return len(self.clients) == 2


DEEP = [Client("greedy", 32), Client("polite", 1)]
CASES = {
    "queue depth 32 against 1": Case(DEEP),
    "queue depth 32 against 1, quiet processors": Case(DEEP, is_quiet=True),
    "8 connections against 1": Case([Client("greedy", 1, connections=8), Client("polite", 1)]),
    "64 clients, queue depths 1, 2, 4 and 8": Case([
        client for client in (Client("polite", 1), Client("middle", 2), Client("middle", 4), Client("greedy", 8))
        for _ in range(16)
    ]),
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
        "\nof clients. Jain's index over the clients' rates is 1 when all are equal."
        "\n`timer` is no server: a process that sleeps as the polite client of two would under a perfect one. Nobody can be"
        "\nbetter on this machine at that moment. The pair of the aim (500 each, polite p99 <= 2.1 ms) is there twice: on"
        "\nthe machine as it is, and on one that wakes up quickly, which shows what is a server's own lateness.",
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
        "timer": _timer,
        # From the page cache, as the others.
        "weir": lambda place, image, clients: servers.weir(place, image, options, f"riops={LIMIT}", direct="off"),
        "nbdkit-rate": nbdkit,
        "qemu": lambda place, image, clients: servers.qemu(place, image, {"iops-read": LIMIT}),
        "qemu-exports": lambda place, image, clients: servers.qemu(place, image, {"iops-read": LIMIT}, exports=clients),
    }

    def measure(place, case, start):
        with QuietCpus(place, case.is_quiet) as quiet:
            disturbance, awake = Disturbance(), quiet.cpu_seconds()
            if start is _timer:
                if not case.is_pair():
                    return None
                figures, server_cpu = _timer(place, options), 0.0
            else:
                with start(place, place.image(256), len(case.clients)) as server:
                    ran = fio.run(
                        place, _jobs(case.clients, server), ioengine="nbd", rw="randread", bs=BLOCK, norandommap=True,
                        time_based=True, runtime=f"{options.seconds:g}", ramp_time=RAMP_SECONDS,
                    )
                    figures, server_cpu = _figures(case.clients, ran), server.cpu_seconds()
            own = server_cpu + quiet.cpu_seconds() - awake
            return figures | {"other_cpu_percent": disturbance.percent(own)}

    note = ("qemu-exports: an export for each client, all in one throttle group. The others have one export for all.\n"
            "Least possible polite p99 when all get their due: 2 ms with two clients, 64 ms with 64.\n"
            "Quiet processors are kept awake, and servers and clients run before everything else where that is permitted.")
    metrics = dict.fromkeys(CASES, METRICS)
    comparison = Comparison("fairness", options, metrics, "latency_us_polite_p99", note, base="weir")
    return comparison.run(systems, CASES, measure)


def _timer(place, options):
    # Of two clients that wait all the time, each is served in every other turn.
    waits = timer.run(place, LIMIT // 2, 0, options.seconds)
    return {"latency_us_polite_p99": percentile(sorted(waits), 99)}


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
