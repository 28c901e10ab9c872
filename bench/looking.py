#!/usr/bin/env python3
"""What looking costs tenants: a client of depth 1 beside 20,000 cgroups, with a scrape, a status and a top each second, and without."""

import http.client
import pathlib
import shlex
import socket
import sys
import threading
import time

from lib import fio, servers
from lib.comparison import Comparison, Metric, arguments
from lib.usage import Disturbance

CGROUPS = 20_000
# What a scraper, `weir status` and `weir top` ask for.
PATHS = ["/metrics", "/v1/status", "/v1/status"]

METRICS = [
    Metric("p50_us", "p50 us", "{:.0f}"),
    Metric("p99_us", "p99 us", "{:.0f}"),
    Metric("thread_us_per_read", "device thread us a read", "{:.1f}"),
    Metric("thread_ms_per_second", "device thread ms a second", "{:.1f}"),
    Metric("looks", "looks", "{:.0f}"),
]


class _Control(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


class Looker:
    """Asks for each of `PATHS` once a second, from a thread; without a control socket it asks for nothing."""

    def __init__(self, control):
        self.looks = 0
        self._control = control
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self):
        while not self._over.wait(1):
            for path in PATHS:
                connection = _Control(self._control)
                connection.request("GET", path)
                reply = connection.getresponse()
                reply.read()
                connection.close()
                self.looks += reply.status == 200

    def __enter__(self):
        if self._control:
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        if self._control:
            self._thread.join()


def serve(place, options, control):
    """`weir serve` with a disk of memory, an export, and cgroups beside it that have a weight each."""
    nbd = place.fresh_socket()
    text = f'[server]\nsocket = "{nbd}"\ncontrol = "{control}"\nmax_cgroups = {CGROUPS + 100}\n'
    text += '[device.disk]\npath = "memory:256M"\n[export.main]\ndevice = "disk"\ncgroup = "/t0/c0"\n'
    for number in range(CGROUPS):
        text += f'[cgroup."/t{number // 100}/c{number}"]\n"io.weight" = {100 + number % 100}\n'
    path = place.fresh("weir", ".toml")
    path.write_text(text, encoding="utf-8")
    command = [options.weir or servers.weir_program(), "serve", path, *shlex.split(options.weir_args)]
    uri = f"nbd+unix:///main?socket={nbd}"
    return servers.Server(place, command, "weir", [uri], socket=nbd)


def thread_seconds(pid):
    """CPU time of the device's thread."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text(encoding="utf-8").startswith("weir-disk"):
            return int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    raise RuntimeError("the server has no thread of a device")


def main():
    options = arguments(
        description=__doc__ + "\n\nThe client reads 4 KiB from memory a thousand times a second. The aim is the p99 of a server that nobody looks at,"
        "\nand less than 0.1 ms of the device's thread a look. All of it shares the CPUs, the one who looks included.",
        examples=["bench/looking.py", "bench/looking.py --rounds 9 --seconds 20"],
        seconds=10,
        quick_seconds=3,
        rounds=5,
    )

    def measure(place, _case, looks):
        control = place.fresh_socket()
        with serve(place, options, control) as server:
            # The first seconds are those of the tree's making.
            time.sleep(1)
            disturbance, before, all_before = Disturbance(), thread_seconds(server.process.pid), server.cpu_seconds()
            with Looker(control if looks else None) as looker:
                [job] = fio.run(
                    place, {"client": {}}, ioengine="nbd", uri=server.uri(), rw="randread", bs="4k", iodepth=1, size="64M",
                    norandommap=True, rate_iops=1000, time_based=True, runtime=f"{options.seconds:g}",
                )
            used = thread_seconds(server.process.pid) - before
            return {
                "p50_us": job.latency_us(50),
                "p99_us": job.latency_us(99),
                "thread_us_per_read": used * 1e6 / job.ios,
                "thread_ms_per_second": used * 1e3 / options.seconds,
                "looks": looker.looks,
                "other_cpu_percent": disturbance.percent(server.cpu_seconds() - all_before),
            }

    def conclude(medians):
        [case] = {case for case, _ in medians}
        if len(medians) < 2:
            return "", None
        alone, looked_at = medians[case, "weir-alone"], medians[case, "weir-looked-at"]
        more = (looked_at["thread_ms_per_second"] - alone["thread_ms_per_second"]) * options.seconds
        each = more / looked_at["looks"]
        text = f"A look takes {each:.2f} ms of the device's thread; the p99 is {looked_at['p99_us'] / alone['p99_us']:.2f} of what it is without."
        return text, {"thread_ms_per_look": each}

    comparison = Comparison("looking", options, METRICS, "p99_us", conclude=conclude)
    systems = {"weir-alone": False, "weir-looked-at": True}
    return comparison.run(systems, {f"depth 1 beside {CGROUPS:,} cgroups": None}, measure)


if __name__ == "__main__":
    sys.exit(main())
