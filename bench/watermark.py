#!/usr/bin/env python3
"""The eight experiments of io-throttle in real time: two writers, limited or not, with a watermark or without."""

import contextlib
import dataclasses
import sys
import time

from lib import fio
from lib.comparison import Comparison, Metric, arguments, table
from lib.quiet import QuietCpus
from lib.tenants import DIRTY_BYTES, Kernel, Tenant, Weir
from lib.usage import Disturbance

MIB = 1 << 20

# As published in 2009: two writers of 1 MiB at a time, one for each cgroup.
WRITER = {"rw": "write", "bs": "1m", "size": "8g", "time_based": 1}
OFFSETS = {"cgrp1": "10g", "cgrp2": "20g"}
LIMITS = {"cgrp1": 4 * MIB, "cgrp2": 2 * MIB}

# The gate as in `weir lab reproduce io-throttle-watermark`: io-throttle's buckets, with room for a request each, and a period
# of about a request. What the source had is not known; with a second the disk is idle for every other one.
GATE_PERIOD = "50ms"
GATE_LIMITS = {"io.limiter": "token", "io.burst": f"disk wbps={MIB}"}

# From the start of the writers until things count: a watermark settles within a second, and the disk's cache fills;
# what writes through a page cache fills that first.
WARM_SECONDS = {"direct": 5, "buffered": 10}
_ENDLESS_SECONDS = 24 * 3600

# What is to be reached. Hard limits: the disk moves what they add up to, within a percent. With a watermark: the gate
# leaves most of the disk in use and the first writer ahead, as published; in proportion nearly all of it is used,
# shared as the limits are.
HARD_PERCENT = 1
GATE_TOTAL, GATE_RATIO = 0.9, 1.1
TOTAL, RATIO, RATIO_PERCENT = 0.98, 2.0, 2


@dataclasses.dataclass(frozen=True)
class Case:
    """One experiment. `published` are the rates of the two writers in 10^6 bytes a second and the disk's in MiB/s."""

    limited: bool
    watermark: int
    mode: str
    published: tuple


CASES = {
    "1: no limits, buffered": Case(False, 0, "buffered", (19.7, 21.1, 17.6)),
    "2: no limits, direct": Case(False, 0, "direct", (12.0, 11.7, 18.9)),
    "3: 4 and 2 MiB/s, buffered": Case(True, 0, "buffered", (6.3, 2.4, 6.03)),
    "4: 4 and 2 MiB/s, direct": Case(True, 0, "direct", (4.2, 2.1, 5.98)),
    "5: watermark 90, buffered": Case(True, 90, "buffered", (32.0, 21.4, 16.9)),
    "6: watermark 90, direct": Case(True, 90, "direct", (14.0, 11.0, 19.6)),
    "7: watermark 100, buffered": Case(True, 100, "buffered", (28.2, 23.4, 17.2)),
    "8: watermark 100, direct": Case(True, 100, "direct", (14.3, 11.7, 18.4)),
}
FREE = {"buffered": "1: no limits, buffered", "direct": "2: no limits, direct"}

METRICS = [
    Metric("cgrp1_bytes_per_second", "cgrp1 MiB/s", "{:.2f}", MIB),
    Metric("cgrp2_bytes_per_second", "cgrp2 MiB/s", "{:.2f}", MIB),
    Metric("ratio", "cgrp1 : cgrp2", "{:.2f}"),
    Metric("disk_bytes_per_second", "disk MiB/s", "{:.2f}", MIB),
    Metric("wasted_percent", "disk wasted %", "{:.1f}"),
]


@dataclasses.dataclass(frozen=True)
class System:
    """Who limits. `open(case)` is the way to the disk, or None where there is nothing to measure."""

    options: object
    name: str
    mode: str | None

    def opener(self, case):
        if self.mode is None:
            # The kernel has no watermark: its limits are as hard on an idle disk, which cases 3 and 4 show.
            return None if case.watermark else Kernel(
                self.options, "none", {"limits"} if case.limited else (), direct=case.mode == "direct",
            )
        if self.is_gate and not case.watermark:
            # Without a watermark there is no mode.
            return None
        mode = f"mode={self.mode}" + (f" period={GATE_PERIOD}" if self.is_gate else "")
        device = {"watermark": f"{case.watermark} {mode}"} if case.watermark else {}
        if case.mode == "buffered":
            device |= {"cache": "writeback", "cache_size": DIRTY_BYTES}
        return Weir(self.options, {"limits", "settings"}, **device)

    def tenants(self, case):
        if not case.limited:
            return {name: Tenant() for name in LIMITS}
        settings = GATE_LIMITS if self.is_gate else {}
        return {name: Tenant(limits={"wbps": limit}, settings=settings) for name, limit in LIMITS.items()}

    @property
    def is_gate(self):
        return self.mode == "gate"


def main():
    options = arguments(
        description=__doc__ + "\n\nThe disk is that of the results, emulated in real time: behind `weir serve`, and as a loop"
        "\ndevice over `weir disk mount`, where the kernel's own limits are set (io.max, or its forerunner of cgroup v1)."
        "\nBuffered is through the server's write-back cache, and through the kernel's page cache.",
        examples=[
            "bench/watermark.py                          all eight, 20 s each",
            "bench/watermark.py --cases 4,6,8            those with direct I/O",
            "bench/watermark.py --only weir --quick      does it work?",
        ],
        seconds=20,
        quick_seconds=4,
        rounds=1,
        more=_more,
    )
    wanted = [part.strip() for part in options.cases.split(",") if part.strip()]
    cases = {name: case for name, case in CASES.items() if not wanted or any(map(name.startswith, wanted))}
    if not cases:
        print("the cases are 1 to 8", file=sys.stderr)
        return 2
    weir = System(options, "weir-proportional", "proportional")
    systems = [weir, System(options, "weir-gate", "gate"), System(options, "kernel", None)]
    bench = Bench(options, weir)
    note = (f"Disk: {options.disk}. Wasted: the part of what two writers without limits get of the same disk that nobody gets."
            "\nRates of writers are what they see; the disk's are what went to it. The kernel has no watermark.")
    comparison = Comparison("watermark", options, METRICS, None, note, conclude=conclude)
    return comparison.run({system.name: system for system in systems}, cases, bench.measure)


def _more(parser):
    parser.add_argument("--disk", default="disk2009", metavar="DISK", help="as `weir disk list` names it (disk2009)")
    parser.add_argument("--quiet-cpus", action="store_true",
                        help="keep the processors awake and let servers and clients run before everything else")
    parser.add_argument("--cases", default="", metavar="LIST", help="those that begin with one of these, by commas")


class Bench:
    """Runs experiments, and remembers what the disk does for each system without limits."""

    def __init__(self, options, weir):
        self._options, self._weir, self._free = options, weir, {}

    def measure(self, place, case, system):
        if system.opener(case) is None:
            return None
        with QuietCpus(place, self._options.quiet_cpus) as quiet:
            disturbance, awake = Disturbance(), quiet.cpu_seconds()
            figures, server_cpu = self._run(place, case, system)
            others = disturbance.percent(server_cpu + quiet.cpu_seconds() - awake)
            if not case.limited:
                self._free[self._way(case, system)] = figures["disk_bytes_per_second"]
            free = self._free_rate(place, case, system)
        wasted = max(0.0, 1 - figures["disk_bytes_per_second"] / free)
        return figures | {
            "wasted_percent": 100 * wasted,
            "of_free": figures["disk_bytes_per_second"] / free,
            "other_cpu_percent": others,
        }

    def _free_rate(self, place, case, system):
        """What the disk does for two writers without limits. The watermark's mode does not matter then."""
        key = self._way(case, system)
        if key not in self._free:
            free = CASES[FREE[case.mode]]
            around = system if system.mode is None else self._weir
            self._free[key] = self._run(place, free, around)[0]["disk_bytes_per_second"]
        return self._free[key]

    @staticmethod
    def _way(case, system):
        return system.mode is None, case.mode

    def _run(self, place, case, system):
        with system.opener(case).open(place, system.tenants(case)) as disk, contextlib.ExitStack() as around:
            jobs = {name: disk.at(name, {**WRITER, "offset": offset}) for name, offset in OFFSETS.items()}
            load = around.enter_context(
                fio.Load(place, jobs, runtime=_ENDLESS_SECONDS, disable_lat=1, disable_slat=1))
            load.hold(WARM_SECONDS[case.mode])
            opens, before, cpu = time.time(), disk.disk_bytes(), disk.cpu_seconds()
            load.hold(self._options.seconds)
            closes, after, cpu = time.time(), disk.disk_bytes(), disk.cpu_seconds() - cpu
            completions = load.stop()
        rates = {name: _rate(each, opens, closes) for name, each in completions.items()}
        return {
            **{f"{name}_bytes_per_second": rate for name, rate in rates.items()},
            "ratio": rates["cgrp1"] / rates["cgrp2"] if rates["cgrp2"] else None,
            "disk_bytes_per_second": (after - before) / (closes - opens),
        }, cpu


def _rate(completions, opens, closes):
    """Bytes a second between the first and the last completion inside: a slow writer's last request may be half done."""
    inside = [each for each in completions if opens <= each.at_seconds < closes]
    if len(inside) < 3:
        return sum(each.bytes for each in inside) / (closes - opens)
    return sum(each.bytes for each in inside[1:]) / (inside[-1].at_seconds - inside[0].at_seconds)


def conclude(medians):
    """For each experiment that has an aim: is it reached? As text and as JSON."""
    verdicts = []
    for (name, system), figures in medians.items():
        case = CASES[name]
        if not case.limited:
            continue
        verdicts.append({"case": name, "system": system, **_verdict(case, system, figures)})
    if not verdicts:
        return "", verdicts
    lines = [["experiment", "aim", "is", "reached", "published: writers MB/s, disk MiB/s"]]
    for verdict in verdicts:
        one, two, disk = CASES[verdict["case"]].published
        lines.append([f"{verdict['case']} {verdict['system']}", verdict["aim"], verdict["is"],
                      {True: "yes", False: "no", None: "-"}[verdict["reached"]], f"{one} and {two}, {disk}"])
    return f"watermark: aims\n\n{table(lines)}", verdicts


def _verdict(case, system, figures):
    disk, ratio = figures["disk_bytes_per_second"], figures.get("ratio") or 0.0
    if not case.watermark:
        wanted = sum(LIMITS.values())
        off = 100 * (disk / wanted - 1)
        return {
            "aim": f"limits at the disk within {HARD_PERCENT} %",
            "is": f"{off:+.1f} %",
            "reached": abs(off) <= HARD_PERCENT,
        }
    answer = f"{figures['of_free']:.3f} of it, {ratio:.2f}"
    if system == "weir-gate":
        reached = figures["of_free"] >= GATE_TOTAL and ratio >= GATE_RATIO
        return {"aim": f"{GATE_TOTAL} of the disk, ratio above {GATE_RATIO}", "is": answer, "reached": reached}
    # What one writer sees of a cache is not what it gets of the disk.
    reached = figures["of_free"] >= TOTAL and abs(100 * (ratio / RATIO - 1)) <= RATIO_PERCENT
    return {"aim": f"{TOTAL} of the disk, {RATIO:.1f} within {RATIO_PERCENT} %", "is": answer, "reached": reached}


if __name__ == "__main__":
    sys.exit(main())
