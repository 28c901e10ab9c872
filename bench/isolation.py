#!/usr/bin/env python3
"""Weir and the kernel asked the four questions of the literature on isolation: overhead, fairness, priority, bursts."""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable

from lib import fio, plot
from lib.comparison import Comparison, Metric, arguments, table
from lib.numbers import jain, median, percentile
from lib.quiet import QuietCpus
from lib.tenants import Kernel, Tenant, Weir, model_of
from lib.usage import Disturbance
from lib.workplace import RESULTS, progress

MIB = 1 << 20

# A flash disk whose truth is known, slow enough that the machine is not what is measured: 488 MB/s, 20,000 random reads
# a second and 80 us on top that others do not wait for.
DISK = "linear-ssd-default,rseqiops=20000,rrandiops=20000,latency=80us"

# Requests at once that keep it busy.
DEPTH = 4

# The watermark of docs/watermark.md for tenants that have to be served soon.
RECOMMENDED = 95

# From the start of a load until things count: Weir's watermark settles within a second.
WARM_SECONDS = 2
_ENDLESS_SECONDS = 24 * 3600

# What counts as a good answer. Overhead: requests a second and the median latency, as parts of what `none` on the same
# way has. Fairness: Jain's index of share by weight, and how much of the disk is used. Priority: how much of the disk
# is used while the 99th percentile of who is latency-critical is at most so many times what it is alone. Bursts: how
# much longer one takes than alone.
IOPS_AIM, LATENCY_AIM = 0.9, 1.1
JAIN_AIM, USED_AIM = 0.98, 0.9
P99_AIM, FRONT_AIM = 3.0, 0.9
BURST_AIM = 1.5

_RANDOM = {"rw": "randread", "bs": "4k"}
_ENDS = {"time_based": 1, "norandommap": 1, "randrepeat": 0}

# Who wants its data soon, and who wants as much as there is.
CRITICAL = {**_RANDOM, "iodepth": 1}
GREEDY = {"rw": "randread", "bs": "64k", "iodepth": 8, "numjobs": 2}
# So many reads at once, and then nothing for a while.
BURST_IOS = 400
BURSTS = {**_RANDOM, "iodepth": 8, "thinktime": "500ms", "thinktime_blocks": BURST_IOS}
_PAUSE_SECONDS = 0.25

OVERHEAD = {
    "alone": CRITICAL,
    "deep": {**_RANDOM, "iodepth": 32},
    "long": {"rw": "read", "bs": "128k", "iodepth": 8},
}


@dataclasses.dataclass(frozen=True)
class Fair:
    """Tenants by name, each with its weight and its load."""

    weights: dict
    loads: dict


def _fair(weights, *loads):
    names = [f"t{number}" for number in range(len(weights))]
    return Fair(dict(zip(names, weights)), {name: loads[number % len(loads)] for number, name in enumerate(names)})


_READS = {"rw": "randread", "bs": "64k", "iodepth": 8}
FAIRNESS = {
    "2 equal": _fair([100] * 2, _READS),
    "16 equal": _fair([100] * 16, {**_READS, "iodepth": 4}),
    "1 : 2 : 4": _fair([100, 200, 400], _READS),
    "64 and 256 KiB": _fair([100] * 2, _READS, {**_READS, "bs": "256k"}),
    "reads and writes": _fair([100] * 2, _READS, {**_READS, "rw": "randwrite"}),
}


@dataclasses.dataclass(frozen=True)
class Setup:
    """A way to a disk and what is said of its tenants: `critical` and `greedy` are those of priority and bursts."""

    name: str
    opener: object
    critical: Tenant = Tenant()
    greedy: Tenant = Tenant()


@dataclasses.dataclass(frozen=True)
class System:
    """One knob. `plain(bytes_per_second)` is how overhead, fairness and bursts are asked, `front(bytes_per_second)` gives the
    setups among which priority is traded for use, both for a disk of that rate. `way` is who else has the same way to it.
    """

    name: str
    way: str
    plain: Callable
    front: Callable
    has_weights: bool = True


def main():
    options = arguments(
        description=__doc__ + "\n\nWeir serves an emulated flash disk over NBD; the kernel has the same disk as a loop device"
        "\nover `weir disk mount`. After Ren et al. (isol-bench, IISWC 2025).",
        examples=[
            "bench/isolation.py                                    all four questions, 5 s a point",
            "bench/isolation.py --questions priority --only weir-bfq",
            "bench/isolation.py --quick                            does it work?",
        ],
        seconds=5,
        quick_seconds=1,
        rounds=1,
        more=_more,
    )
    cases = _cases(options)
    if not cases:
        print("there are the questions overhead, fairness, priority and bursts", file=sys.stderr)
        return 2
    bench = Bench(options)
    metrics = {name: _METRICS[question] for name, (question, _) in cases.items()}
    mains = {name: _MAINS[question] for name, (question, _) in cases.items()}
    note = f"Disk: {options.disk}. Other work is other processes' share of the machine; a loop device's threads count as such."
    comparison = Comparison("isolation", options, metrics, mains, note, base="weir-none", conclude=bench.conclude)
    return comparison.run(_systems(options), cases, bench.measure)


def _more(parser):
    parser.add_argument("--disk", default=DISK, metavar="DISK", help=f"as `weir disk list` names it ({DISK})")
    parser.add_argument("--quiet-cpus", action="store_true",
                        help="keep the processors awake and let servers and clients run before everything else")
    parser.add_argument("--questions", default="", metavar="LIST", help="those that begin with one of these, by commas")


def _cases(options):
    cases = {f"overhead, {name}": ("overhead", load) for name, load in OVERHEAD.items()}
    cases |= {f"fairness, {name}": ("fairness", fair) for name, fair in FAIRNESS.items()}
    cases |= {"priority": ("priority", None), "bursts": ("bursts", None)}
    if options.quick:
        del cases["overhead, long"], cases["fairness, 16 equal"]
    wanted = [part.strip() for part in options.questions.split(",") if part.strip()]
    return {name: case for name, case in cases.items() if not wanted or any(map(name.startswith, wanted))}


def _systems(options):
    """Every knob by name. Weir's `none` and the kernel's are what the others of their way are measured by."""
    shares = (0.5, 0.9) if options.quick else (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
    marks = (50, RECOMMENDED) if options.quick else (50, 70, 80, 90, RECOMMENDED, 99)
    weights = (100, 10) if options.quick else (1000, 300, 100, 30, 10, 3, 1)
    high = {"rbps": 100 << 30}

    def by_weight(opener, most=1000):
        return lambda _: [
            Setup(f"{most} : {weight}", opener, Tenant(weight=most), Tenant(weight=weight)) for weight in weights
        ]

    def by_limit(opener):
        return lambda rate: [
            Setup(f"others at {share:.0%}", opener, Tenant(), Tenant(limits={"rbps": int(rate * share)}))
            for share in shares
        ]

    def watermarked(percent, rate):
        # No more at the disk than keeps it busy, as `weir calibrate` tells, and no waiting for who is not there: on
        # flash both only take from others. Who is greedy has a tenth of the disk for sure, and by the watermark what
        # nobody else asks for.
        opener = Weir(options, {"weight", "limits", "prio"}, scheduler="bfq", depth=DEPTH, watermark=str(percent),
                      model=lambda: model_of(options.weir, options.disk), bfq={"slice_idle": "0ms"})
        return Setup(f"watermark {percent}", opener, urgent, Tenant(limits={"rbps": int(rate / 10)}))

    def alike(opener, **both):
        return lambda _: Setup("plain", opener, both.get("critical", Tenant()), both.get("greedy", Tenant()))

    none, bfq = Weir(options), Weir(options, {"weight"}, scheduler="bfq")
    classes = Weir(options, {"weight", "prio"}, scheduler="bfq")
    limits = Weir(options, {"limits"})
    kernel_none, kernel_bfq = Kernel(options, "none"), Kernel(options, "bfq", {"weight"})
    deadline, kernel_limits = Kernel(options, "mq-deadline", {"prio"}), Kernel(options, "none", {"limits"})
    first, last = Tenant(weight=1000), Tenant(weight=100)
    # A weight decides who is next when a slot ends; a class does not wait for that.
    urgent = Tenant(prio="rt")

    def by_class(opener):
        return lambda _: [
            Setup(f"{ours} : {theirs}", opener, Tenant(prio=ours), Tenant(prio=theirs))
            for ours, theirs in (("be", "be"), ("be", "idle"), ("rt", "be"), ("rt", "idle"))
        ]

    limited = {"critical": Tenant(), "greedy": Tenant(limits=high)}
    systems = [
        System("weir-none", "weir", alike(none), lambda _: [Setup("plain", none)], has_weights=False),
        System("weir-bfq", "weir", alike(bfq, critical=first, greedy=last), by_weight(bfq)),
        System("weir-bfq-class", "weir", alike(classes, critical=Tenant(prio="rt")), by_class(classes)),
        System("weir-bfq-watermark", "weir", lambda rate: watermarked(RECOMMENDED, rate),
               lambda rate: [watermarked(percent, rate) for percent in marks]),
        System("weir-limits", "weir", alike(limits, **limited), by_limit(limits), has_weights=False),
        System("kernel-none", "kernel", alike(kernel_none), lambda _: [Setup("plain", kernel_none)], has_weights=False),
        System("kernel-bfq", "kernel", alike(kernel_bfq, critical=first, greedy=last), by_weight(kernel_bfq)),
        System(
            "kernel-mq-deadline", "kernel", alike(deadline, critical=Tenant(prio="rt"), greedy=Tenant(prio="be")),
            by_class(deadline), has_weights=False,
        ),
        System("kernel-limits", "kernel", alike(kernel_limits, **limited), by_limit(kernel_limits), has_weights=False),
    ]
    return {system.name: system for system in systems}


_METRICS = {
    "overhead": [
        Metric("ios_per_second", "IOPS", "{:.0f}"),
        Metric("bytes_per_second", "MiB/s", "{:.1f}", MIB),
        Metric("latency_us_p50", "p50 us", "{:.0f}"),
        Metric("latency_us_p99", "p99 us", "{:.0f}"),
        Metric("cpu_us_per_io", "server CPU us/IO", "{:.1f}"),
    ],
    "fairness": [
        Metric("jain_index", "Jain", "{:.4f}"),
        Metric("off_percent", "off % of share", "{:.1f}"),
        Metric("bytes_per_second", "MiB/s", "{:.1f}", MIB),
    ],
    "priority": [
        Metric("alone_p99_us", "p99 alone us", "{:.0f}"),
        Metric("used_percent", f"used % at p99 < {P99_AIM:g} x", "{:.0f}"),
        Metric("p99_ratio", f"p99 x at {FRONT_AIM:.0%} used", "{:.1f}"),
        Metric("points", "points", "{:.0f}"),
    ],
    "bursts": [
        Metric("alone_burst_ms", "alone ms", "{:.1f}"),
        Metric("burst_ms", "burst ms", "{:.1f}"),
        Metric("worst_burst_ms", "worst ms", "{:.1f}"),
        Metric("burst_ratio", "of alone", "{:.2f}"),
        Metric("others_bytes_per_second", "others MiB/s", "{:.1f}", MIB),
    ],
}
_MAINS = {"overhead": "ios_per_second", "fairness": "jain_index", "priority": None, "bursts": "burst_ratio"}


class Bench:
    """Asks, and remembers what is asked once for each way or system."""

    def __init__(self, options):
        self._options, self._known, self._fronts = options, {}, {}

    def measure(self, place, case, system):
        question, what = case
        with QuietCpus(place, self._options.quiet_cpus) as quiet:
            disturbance, awake = Disturbance(), quiet.cpu_seconds()
            figures, server_cpu = getattr(self, f"_{question}")(place, what, system)
            if figures is None:
                return None
            return figures | {"other_cpu_percent": disturbance.percent(server_cpu + quiet.cpu_seconds() - awake)}

    def _overhead(self, place, load, system):
        setup = self._plain(place, system)
        done = self._run(place, setup, {"critical": load}, {"critical": setup.critical})
        figures = done.figures("critical")
        return figures | {"cpu_us_per_io": 1e6 * done.cpu_seconds / max(done.all_ios, 1)}, done.cpu_seconds

    def _fairness(self, place, fair, system):
        if not system.has_weights and len(set(fair.weights.values())) > 1:
            return None, 0.0
        tenants = {name: Tenant(weight=weight) for name, weight in fair.weights.items()}
        done = self._run(place, self._plain(place, system), fair.loads, tenants)
        served = {name: done.bytes_per_second(name) for name in tenants}
        total, weights = sum(served.values()), sum(fair.weights.values())
        if not total:
            raise RuntimeError("nobody was served")
        parts = [served[name] / total * weights / weight for name, weight in fair.weights.items()]
        return {
            "jain_index": jain(parts),
            "off_percent": 100 * max(abs(part - 1) for part in parts),
            "bytes_per_second": total,
        }, done.cpu_seconds

    def _priority(self, place, _, system):
        rate, most = self._rate(place, system), self._most(place, system)
        alone = self._alone(place, system)
        points, cpu = [], 0.0
        for setup in system.front(rate):
            progress(f"isolation: priority, {setup.name}")
            done = self._run(place, setup, {"critical": CRITICAL, "greedy": GREEDY},
                             {"critical": setup.critical, "greedy": setup.greedy})
            ours = done.figures("critical")
            # Of what each could have alone: a small request takes more of the disk than its bytes.
            used = done.bytes_per_second("greedy") / rate + ours["ios_per_second"] / most
            points.append((used, ours["latency_us_p99"], setup.name))
            cpu += done.cpu_seconds
        self._fronts[system.name] = points
        good = [used for used, p99, _ in points if p99 <= P99_AIM * alone]
        busy = [p99 for used, p99, _ in points if used >= FRONT_AIM]
        return {
            "alone_p99_us": alone,
            "used_percent": 100 * max(good, default=0.0),
            "p99_ratio": min(busy) / alone if busy else None,
            "points": len(points),
            "front": [{"name": name, "used": used, "latency_us_p99": p99} for used, p99, name in points],
        }, cpu

    def _bursts(self, place, _, system):
        setup = self._plain(place, system)
        tenants = {"critical": setup.critical, "greedy": setup.greedy}
        alone = self._run(place, setup, {"critical": BURSTS}, tenants)
        done = self._run(place, setup, {"critical": BURSTS, "greedy": GREEDY}, tenants)
        ours, theirs = (sorted(each.bursts("critical")) for each in (done, alone))
        return {
            "alone_burst_ms": 1000 * median(theirs),
            "burst_ms": 1000 * median(ours),
            "worst_burst_ms": 1000 * ours[-1],
            "burst_ratio": median(ours) / median(theirs),
            "others_bytes_per_second": done.bytes_per_second("greedy"),
        }, done.cpu_seconds

    def _rate(self, place, system):
        """What who wants as much as there is gets alone, on that way without any knob."""
        return self._once(("rate", system.way), lambda: self._run(
            place, self._none(system.way), {"greedy": GREEDY}, {"greedy": Tenant()}).bytes_per_second("greedy"))

    def _most(self, place, system):
        """How many of the requests of who is latency-critical the disk serves in a second, on that way without any knob."""
        return self._once(("most", system.way), lambda: self._run(
            place, self._none(system.way), {"critical": OVERHEAD["deep"]}, {"critical": Tenant()},
        ).figures("critical")["ios_per_second"])

    def _alone(self, place, system):
        """The 99th percentile of who is latency-critical, alone, on that way without any knob."""
        return self._once(("p99", system.way), lambda: self._run(
            place, self._none(system.way), {"critical": CRITICAL}, {"critical": Tenant()},
        ).figures("critical")["latency_us_p99"])

    def _plain(self, place, system):
        return system.plain(self._rate(place, system))

    def _none(self, way):
        return _systems(self._options)[f"{way}-none"].plain(None)

    def _once(self, key, ask):
        if key not in self._known:
            self._known[key] = ask()
        return self._known[key]

    def _run(self, place, setup, loads, tenants):
        with setup.opener.open(place, tenants) as disk, contextlib.ExitStack() as around:
            jobs = {name: {**_ENDS, **disk.at(name, load)} for name, load in loads.items()}
            load = around.enter_context(
                fio.Load(place, jobs, runtime=_ENDLESS_SECONDS, disable_lat=1, disable_slat=1))
            begun, before = time.time(), disk.cpu_seconds()
            load.hold(WARM_SECONDS + self._options.seconds)
            cpu = disk.cpu_seconds() - before
            completions = load.stop()
        opens = begun + WARM_SECONDS
        return _Done(completions, opens, opens + self._options.seconds, cpu)

    def conclude(self, medians):
        """The front as a drawing, and for each system which questions it answers well. As text and as JSON."""
        verdicts = [_verdict(name, system, medians) for name, system in _systems(self._options).items()]
        verdicts = [verdict for verdict in verdicts if any(verdict[question] is not None for question in _MAINS)]
        if not verdicts:
            return "", verdicts
        lines = [["system", *_MAINS, "all four"]]
        for verdict in verdicts:
            answers = [verdict[question] for question in _MAINS]
            all_four = "yes" if all(answers) else "-" if None in answers else "no"
            lines.append([verdict["system"], *map(_yes, answers), all_four])
        text = f"isolation: which questions are answered well\n\n{table(lines)}\n\n{_AIMS}"
        if self._fronts:
            path = RESULTS / "isolation-front.svg"
            path.write_text(self._drawing(), encoding="utf-8")
            text += f"\n\nThe front: {path}"
        return text, verdicts

    def _drawing(self):
        series = {name: [(used, p99, label) for used, p99, label in points] for name, points in self._fronts.items()}
        worst = max(p99 for points in self._fronts.values() for _, p99, _ in points)
        ticks = [(100, "100 us"), (1000, "1 ms"), (10_000, "10 ms"), (100_000, "100 ms"), (1_000_000, "1 s")]
        # As far as there are points.
        ticks = ticks[:2 + sum(value <= worst for value, _ in ticks[1:])]
        return plot.scatter(
            "Priority against use: further right and further down is better",
            "use: what each gets of what it gets alone, together", "p99 of the latency-critical tenant", series, ticks,
        )


_AIMS = (
    f"overhead: {IOPS_AIM:g} of the requests and at most {LATENCY_AIM:g} x the median latency of `none` on the same way; "
    f"fairness:\nJain {JAIN_AIM:g} in every row with {USED_AIM:.0%} of what `none` moves; priority: {FRONT_AIM:.0%} used with "
    f"p99 at most {P99_AIM:g} x alone;\nbursts: at most {BURST_AIM:g} x as long as alone."
)


def _verdict(name, system, medians):
    """Whether a system answers each question well; None where it was not asked."""
    def of(case, which=name):
        return medians.get((case, which))

    none = f"{system.way}-none"
    verdict = {"system": name, **dict.fromkeys(_MAINS)}
    alone, deep = "overhead, alone", "overhead, deep"
    if all(of(case, which) for case in (alone, deep) for which in (name, none)):
        verdict["overhead"] = (
            of(deep)["ios_per_second"] >= IOPS_AIM * of(deep, none)["ios_per_second"]
            and of(alone)["latency_us_p50"] <= LATENCY_AIM * of(alone, none)["latency_us_p50"]
        )
    fair = [case for case, which in medians if which == name and case.startswith("fairness")]
    if fair:
        # Who has no weights cannot be fair to unequal tenants.
        verdict["fairness"] = system.has_weights and all(
            of(case)["jain_index"] >= JAIN_AIM
            and of(case)["bytes_per_second"] >= USED_AIM * (of(case, none) or of(case))["bytes_per_second"]
            for case in fair
        )
    if of("priority"):
        verdict["priority"] = of("priority")["used_percent"] >= 100 * FRONT_AIM
    if of("bursts"):
        verdict["bursts"] = of("bursts")["burst_ratio"] <= BURST_AIM
    return verdict


def _yes(value):
    return "-" if value is None else "yes" if value else "no"


class _Done:
    """What jobs did from `opens` to `closes`, and the processor time of the server from the load's start to then."""

    def __init__(self, completions, opens, closes, cpu_seconds):
        self._completions, self._opens, self._closes = completions, opens, closes
        self.cpu_seconds = cpu_seconds
        self.all_ios = sum(1 for each in completions.values() for one in each if one.at_seconds < closes)

    def _within(self, name):
        return [each for each in self._completions[name] if self._opens <= each.at_seconds < self._closes]

    def bytes_per_second(self, name):
        return sum(each.bytes for each in self._within(name)) / (self._closes - self._opens)

    def figures(self, name):
        within = self._within(name)
        if not within:
            raise RuntimeError(f"no request of {name} has ended")
        latencies = sorted(each.latency_us for each in within)
        return {
            "ios_per_second": len(within) / (self._closes - self._opens),
            "bytes_per_second": self.bytes_per_second(name),
            "latency_us_p50": percentile(latencies, 50),
            "latency_us_p99": percentile(latencies, 99),
        }

    def bursts(self, name):
        """Seconds from each whole burst's first submission to its last completion."""
        spans = sorted((each.at_seconds - each.latency_us / 1e6, each.at_seconds) for each in self._completions[name])
        bursts = []
        for submitted, ended in spans:
            if not bursts or submitted > bursts[-1][1] + _PAUSE_SECONDS:
                bursts.append([submitted, ended, 0])
            bursts[-1][1] = max(bursts[-1][1], ended)
            bursts[-1][2] += 1
        # The first meets what has only begun; the last may have been cut off.
        whole = [end - begin for begin, end, count in bursts[1:] if count >= BURST_IOS]
        if not whole:
            raise RuntimeError("no burst was whole")
        return whole


if __name__ == "__main__":
    sys.exit(main())
