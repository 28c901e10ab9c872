#!/usr/bin/env python3
"""How exactly a limit is met in the long run: achieved rate over limit."""

import dataclasses
import pathlib
import subprocess
import sys

from lib import servers
from lib.comparison import Comparison, Metric, arguments
from lib.numbers import rate_between_batches
from lib.servers import Absent
from lib.usage import Disturbance
from lib.workplace import end

KIB, MIB = 1 << 10, 1 << 20
# Bursts, and what a limiter allows for a client that was idle, are over by then (nbdkit's lasts two seconds).
WARM_SECONDS = 3
# Enough that the highest limits wait for the limiter and not for the client's next read.
DEPTH = 8


@dataclasses.dataclass(frozen=True)
class Limit:
    """A limit on reads, and the size of the reads that meet it."""

    key: str
    per_second: int
    read_bytes: int

    @property
    def amount(self):
        """What one read counts."""
        return 1 if self.key == "riops" else self.read_bytes


def _limits():
    for iops in (1, 10, 100, 1000, 10000):
        yield f"riops={iops}", Limit("riops", iops, 4 * KIB)
    for text, rate in (("64K", 64 * KIB), ("1M", MIB), ("16M", 16 * MIB), ("256M", 256 * MIB), ("1G", 1024 * MIB)):
        # 64 reads a second or more where 4 KiB allow it, and no read above a mebibyte.
        yield f"rbps={text}", Limit("rbps", rate, min(max(rate // 64, 4 * KIB), MIB))


METRICS = [
    Metric("achieved_per_second", "per second", "{:.2f}"),
    Metric("achieved_over_limit", "over limit", "{:.5f}"),
    Metric("error_percent", "error %", "{:+.3f}"),
    Metric("reached", "within 0.1 %"),
]


def main():
    cases = dict(_limits())
    options = arguments(
        description=__doc__ + f"\n\nA client of its own keeps {DEPTH} reads under way and notes the time of each"
        f"\ncompletion. The first {WARM_SECONDS} s do not count. The rate is that between the first and the last completion"
        "\nthat open a batch: (n - 1) / (t_last - t_first) where they come one by one, whole batches where a limiter lets"
        "\nseveral go at a time. Counting completions in a fixed window instead would be off by one in n, which is 10 % at"
        "\n1 read a second.",
        examples=[
            "bench/accuracy.py                              all limits and systems, ten seconds each",
            "bench/accuracy.py --limits riops=1000,rbps=1M  some",
            "bench/accuracy.py --quick --only peers         does it work without Weir?",
        ],
        seconds=10,
        quick_seconds=3,
        rounds=1,
        more=lambda parser: parser.add_argument(
            "--limits", metavar="LIST", help=f"by commas, of {','.join(cases)}; --quick takes riops=100,rbps=1M"),
    )
    wanted = options.limits or ("riops=100,rbps=1M" if options.quick else ",".join(cases))
    unknown = [name for name in wanted.split(",") if name not in cases]
    if unknown:
        print(f"unknown limits: {', '.join(unknown)}; there are {', '.join(cases)}", file=sys.stderr)
        return 2

    def weir(place, image, limit):
        # From the page cache, as the peers: a gibibyte a second is more than many disks give.
        return servers.weir(place, image, options, f"{limit.key}={limit.per_second}", direct="off")

    systems = {"weir": weir, "nbdkit-rate": _nbdkit, "qemu": _qemu}

    def measure(place, limit, start):
        with start(place, place.image(256), limit) as server:
            disturbance = Disturbance()
            times = _completions(place, server.uri(), limit, options.seconds)
            achieved = rate_between_batches(times, [limit.amount] * len(times))
            over = achieved / limit.per_second
            return {
                "achieved_per_second": achieved,
                "achieved_over_limit": over,
                "error_percent": 100 * (over - 1),
                "reached": "yes" if abs(over - 1) <= 0.001 else "no",
                "reads": len(times),
                "other_cpu_percent": disturbance.percent(server.cpu_seconds()),
            }

    note = "nbdkit limits bits only: a limit of I/Os is given to it as that many reads of 4 KiB."
    comparison = Comparison("accuracy", options, METRICS, None, note)
    return comparison.run(systems, {name: cases[name] for name in wanted.split(",")}, measure)


def _nbdkit(place, image, limit):
    bytes_per_second = limit.per_second * limit.read_bytes // limit.amount
    return servers.nbdkit(place, "file", image, f"rate={bytes_per_second * 8}", filters=["rate"])


def _qemu(place, image, limit):
    key = "iops-read" if limit.key == "riops" else "bps-read"
    return servers.qemu(place, image, {key: limit.per_second})


def _completions(place, uri, limit, seconds):
    python = pathlib.Path("/usr/bin/python3")
    program = python if python.exists() else sys.executable
    command = [program, "-m", "lib.client", uri, limit.read_bytes, DEPTH, WARM_SECONDS, seconds]
    client = place.spawn(command, cwd=pathlib.Path(__file__).parent, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, errors = client.communicate()
    finally:
        end(client)
    if "No module named 'nbd'" in errors:
        raise Absent("python3-libnbd is not installed (tools/packages bench)")
    if client.returncode != 0:
        raise RuntimeError(f"the client failed: {errors.strip()[-600:]}")
    return [int(line) for line in out.split()]


if __name__ == "__main__":
    sys.exit(main())
