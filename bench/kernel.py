#!/usr/bin/env python3
"""Weir's BFQ beside the kernel's schedulers, its BFQ among them: the same jobs on the same emulated disk."""

import dataclasses
import pathlib
import sys

from lib import rows, servers, startup
from lib.comparison import Comparison, Metric, arguments, table
from lib.numbers import jain, rate_over
from lib.quiet import QuietCpus
from lib.schedulers import Kernel, Lab, Weir, write_row, write_start
from lib.usage import Disturbance

MIB = 1 << 20

# A start-up may take so much longer than on the idle disk.
START_AIM = 1.10
# Interleaved readers together, as a part of what one reader has.
INTERLEAVED_AIM = 0.9

# Rates that differ by less are the same.
LEVEL = 0.005
# How far a share may be from what the weights say, in percent of it; and Jain's index of share by weight.
SHARE_AIM_PERCENT, JAIN_AIM = 2, 0.999

# Whose figures are compared at the end, and with whose.
OURS = "weir-bfq", "lab-bfq"
THEIRS = "kernel-bfq", "kernel-bfq-ll0"

BYTES = Metric("bytes_per_second", "MiB/s", "{:.2f}", MIB)
IOS = Metric("ios_per_second", "IOPS", "{:.1f}")

START_METRICS = [
    Metric("idle_seconds", "idle s", "{:.2f}"),
    Metric("loaded_seconds", "loaded s", "{:.2f}"),
    Metric("ratio", "loaded / idle", "{:.2f}"),
    Metric("done_percent", "done %", "{:.0f}"),
    Metric("background_bytes_per_second", "background MiB/s", "{:.2f}", MIB),
    Metric("after_bytes_per_second", "after it MiB/s", "{:.2f}", MIB),
]
INTERLEAVED_METRICS = [
    BYTES,
    Metric("alone_bytes_per_second", "one reader MiB/s", "{:.2f}", MIB),
    Metric("ratio", "of one reader", "{:.2f}"),
]
WEIGHTS_METRICS = [
    BYTES,
    IOS,
    *(Metric(f"share_percent_{name}", f"{weight} %", "{:.2f}") for name, weight in rows.WEIGHTS.items()),
    Metric("off_percent", "off % of share", "{:.1f}"),
    Metric("jain_index", "Jain", "{:.4f}"),
]
PAIR_METRICS = [
    BYTES,
    Metric("sequential1_bytes_per_second", "sequential MiB/s", "{:.2f}", MIB),
    Metric("sequential2_bytes_per_second", "sequential MiB/s", "{:.2f}", MIB),
    Metric("random_ios_per_second", "random IOPS", "{:.1f}"),
    Metric("sequential1_of_alone_percent", "of alone %", "{:.0f}"),
    Metric("sequential2_of_alone_percent", "of alone %", "{:.0f}"),
    Metric("random_of_alone_percent", "of alone %", "{:.0f}"),
]
FLOWS_METRICS = [
    Metric("light_latency_us_p50", "light p50 ms", "{:.1f}", 1000),
    Metric("light_latency_us_p99", "light p99 ms", "{:.1f}", 1000),
    Metric("light_ios", "light reads", "{:.0f}"),
    BYTES,
    IOS,
]


@dataclasses.dataclass(frozen=True)
class Start:
    """The start of an application, from the trace at `path`. It is measured by itself, on the idle disk."""

    path: pathlib.Path
    against: tuple = ()


def main():
    options = arguments(
        description=__doc__ + "\n\nThe kernel's schedulers work on a loop device (rotational, direct I/O) over"
        "\n`weir disk mount`; Weir serves the same disk over NBD, a connection for each process; the lab has it in virtual"
        "\ntime. Each job is a process with one request at a time.",
        examples=[
            "bench/kernel.py                                       all rows, 10 s each",
            "bench/kernel.py --rows weights --only kernel-bfq,weir some",
            "bench/kernel.py --only lab                            in virtual time: a minute, no root",
            "bench/kernel.py --scenarios DIR                       the rows as scenarios for `weir lab run`",
            "bench/kernel.py --quick                               does it work?",
        ],
        seconds=10,
        quick_seconds=3,
        rounds=1,
        more=_more,
    )
    options.cap = options.cap or (15 if options.quick else 60)
    cases, absent = _cases(options)
    if not cases:
        print(f"no row begins with {options.rows}; there are {', '.join([*rows.ROWS, 'start of TRACE'])}",
              file=sys.stderr)
        return 2
    if options.scenarios:
        return _write_scenarios(options, cases)
    systems = {
        "weir-bfq": Weir(options, "bfq"),
        "weir-none": Weir(options, "none"),
        "kernel-bfq": Kernel(options, "bfq", low_latency=1),
        "kernel-bfq-ll0": Kernel(options, "bfq", low_latency=0),
        "kernel-none": Kernel(options, "none"),
        "kernel-mq-deadline": Kernel(options, "mq-deadline"),
        "kernel-kyber": Kernel(options, "kyber"),
        "lab-bfq": Lab(options, "bfq"),
        "lab-none": Lab(options, "none"),
    }
    alone = {}

    def one_reader(place, system, kind):
        # Once for each system, whatever the rounds.
        if (system, kind) not in alone:
            [alone[system, kind]] = system.run(place, rows.ALONE[kind])[0].values()
        return alone[system, kind]

    def measure(place, case, system):
        with QuietCpus(place, options.quiet_cpus) as quiet:
            ones = {kind: one_reader(place, system, kind) for kind in case.against}
            disturbance, awake = Disturbance(), quiet.cpu_seconds()
            if isinstance(case, Start):
                figures, server_cpu = _start(place, case, system, options)
            else:
                done, server_cpu = system.run(place, case)
                figures = _figures(case, done, ones)
            if isinstance(system, Lab):
                # No clock takes part.
                return figures | {"other_cpu_percent": 0.0}
            return figures | {"other_cpu_percent": disturbance.percent(server_cpu + quiet.cpu_seconds() - awake)}

    metrics = {name: _metrics(case)[0] for name, case in cases.items()}
    main_metrics = {name: _metrics(case)[1] for name, case in cases.items()}
    note = (f"Disk: {options.disk}. A start-up that is not over after {options.cap} s is given up (done %).\n"
            "After it: what the background has when the start-up is over. The aim is of one time for both, that of the\n"
            "slower start.\n"
            "Shares are of bytes. kernel-bfq-ll0: without low_latency. lab: virtual time.")
    note += "".join(f"\nskipped, a row: {name}" for name in absent)

    def conclude(medians):
        return _conclude(medians, cases)

    comparison = Comparison("kernel", options, metrics, main_metrics, note, base="weir-bfq", conclude=conclude)
    return comparison.run(systems, cases, measure)


def _more(parser):
    parser.add_argument("--rows", default="", metavar="LIST", help="rows that begin with one of these, by commas")
    parser.add_argument("--disk", default="hdd7200", metavar="DISK", help="as `weir disk list` names it (hdd7200)")
    parser.add_argument("--traces", type=pathlib.Path, default=startup.TRACES, metavar="DIR",
                        help="where the traces of start-ups are (default ../shared/data/startup)")
    parser.add_argument("--cap", type=int, metavar="N", help="seconds that a start-up may take (default 60)")
    parser.add_argument("--scenarios", type=pathlib.Path, metavar="DIR",
                        help="write the rows there as scenarios for `weir lab run`, and end")
    parser.add_argument("--quiet-cpus", action="store_true",
                        help="keep the processors awake and let servers and clients run before everything else")


def _cases(options):
    """The rows to measure, by name, and what is missing."""
    traces = startup.find(options.traces)
    absent = [] if traces else [f"start-ups: there is no trace in {options.traces} (--traces)"]
    if options.quick:
        # The shorter one.
        traces = dict(sorted(traces.items(), key=lambda trace: trace[1].stat().st_size)[:1])
    cases = {f"start of {name}": Start(path) for name, path in traces.items()} | rows.ROWS
    wanted = [part.strip() for part in options.rows.split(",") if part.strip()]
    chosen = {name: case for name, case in cases.items() if not wanted or any(map(name.startswith, wanted))}
    return chosen, absent


def _write_scenarios(options, cases):
    options.scenarios.mkdir(parents=True, exist_ok=True)
    everything = cases | {f"alone, {name}": row for name, row in rows.ALONE.items()}
    for name, case in everything.items():
        stem = name.replace(",", "").replace(" ", "-")
        if not isinstance(case, Start):
            print(write_row(options.scenarios / f"{stem}.toml", options, case))
            continue
        # The lab finds traces from where it runs.
        parts = startup.split(case.path, options.scenarios.resolve())
        for kind, background in (("idle", {}), ("loaded", rows.BACKGROUND)):
            about = f"The start of {case.path.stem}, {kind}."
            path = options.scenarios / f"{stem}-{kind}.toml"
            print(write_start(path, options, about, parts, background, options.cap, options.cap))
    return 0


def _start(place, case, system, options):
    directory = place.fresh("trace")
    directory.mkdir()
    parts = startup.split(case.path, directory)
    idle, idle_cpu = system.start(place, parts, {}, options.cap)
    loaded, loaded_cpu = system.start(place, parts, rows.BACKGROUND, options.cap)
    return {
        "idle_seconds": idle.seconds,
        "loaded_seconds": loaded.seconds,
        "ratio": loaded.seconds / idle.seconds,
        "done_percent": loaded.done_percent,
        "background_bytes_per_second": loaded.background_bytes_per_second,
        "after_bytes_per_second": loaded.after_bytes_per_second,
    }, idle_cpu + loaded_cpu


def _metrics(case):
    """The columns of a row, and which of them the ratio is of."""
    if isinstance(case, Start):
        return START_METRICS, "loaded_seconds"
    if case.weights:
        return WEIGHTS_METRICS, "bytes_per_second"
    if "light" in case.jobs:
        return FLOWS_METRICS, "light_latency_us_p99"
    if "random" in case.jobs:
        return PAIR_METRICS, "bytes_per_second"
    return INTERLEAVED_METRICS, "bytes_per_second"


def _figures(row, done, ones):
    """A run's figures. `ones` are readers of each kind that the row is measured by, when nobody else is there."""
    figures = {
        "bytes_per_second": sum(job.bytes_per_second() for job in done.values()),
        "ios_per_second": sum(job.ios_per_second() for job in done.values()),
    }
    if row.weights:
        return figures | _shares(row, done)
    if "light" in row.jobs:
        light = done["light"]
        if light.latency_us_p99 is None:
            raise RuntimeError("no read of a light flow has ended")
        return figures | {
            "light_ios": light.ios,
            "light_latency_us_p50": light.latency_us_p50,
            "light_latency_us_p99": light.latency_us_p99,
        }
    sequential = ones["sequential"].bytes_per_second()
    if "random" in row.jobs:
        random = done["random"].ios_per_second()
        for name in ("sequential1", "sequential2"):
            figures[f"{name}_bytes_per_second"] = done[name].bytes_per_second()
            figures[f"{name}_of_alone_percent"] = 100 * done[name].bytes_per_second() / sequential
        random_percent = 100 * random / ones["random"].ios_per_second()
        return figures | {"random_ios_per_second": random, "random_of_alone_percent": random_percent}
    ratio = figures["bytes_per_second"] / sequential
    return figures | {"alone_bytes_per_second": sequential, "ratio": ratio}


def _shares(row, done):
    served = dict.fromkeys(row.weights, 0.0)
    for name, job in row.jobs.items():
        served[job["cgroup"]] += done[name].bytes_per_second()
    total, weights = sum(served.values()), sum(row.weights.values())
    if not total:
        raise RuntimeError("no cgroup was served")
    # 1 where a cgroup has exactly its due.
    parts = {name: served[name] / total * weights / weight for name, weight in row.weights.items()}
    return {
        **{f"share_percent_{name}": 100 * each / total for name, each in served.items()},
        "off_percent": 100 * max(abs(part - 1) for part in parts.values()),
        "jain_index": jain(list(parts.values())),
    }


def _conclude(medians, cases):
    """For each row: is the aim reached, and is Weir ahead of the kernel's BFQ? As text and as JSON."""
    verdicts = []
    for name, case in cases.items():
        theirs = [medians[name, system] for system in THEIRS if (name, system) in medians]
        for system in OURS:
            if (name, system) in medians:
                verdicts.append({"row": name, "system": system, **_verdict(case, medians[name, system], theirs)})
    if not verdicts:
        return "", verdicts
    lines = [["row", "aim", "is", "reached", "the kernel's BFQ", "ahead"]]
    for verdict in verdicts:
        row = [f"{verdict['row']} {verdict['system']}", verdict["aim"], verdict["is"]]
        lines.append([*row, _yes(verdict["reached"]), verdict["kernel"] or "-", _yes(verdict["ahead"])])
    return f"kernel: aims\n\n{table(lines)}", verdicts


def _verdict(case, ours, theirs):
    """`kernel` is the better one of the kernel's with and without low latency; None where there is none."""
    if isinstance(case, Start):
        # The one that starts sooner: without low latency the background has much, and the start-up nothing.
        kernel = min(theirs, key=lambda each: each["loaded_seconds"], default={})
        best = kernel.get("loaded_seconds")
        seconds = max(ours["loaded_seconds"], best or 0)
        mine, background = _background(ours, seconds), _background(kernel, seconds) if kernel else None
        is_reached = ours["ratio"] <= START_AIM and ours["done_percent"] >= 100
        return {
            "aim": f"{START_AIM:.2f} x idle, background as kernel's",
            "is": f"{ours['ratio']:.2f} x, {mine / MIB:.1f} MiB/s in {seconds:.2f} s",
            "reached": is_reached if background is None else is_reached and mine >= background,
            "kernel": None if best is None else f"{best:.2f} s, {background / MIB:.1f} MiB/s in {seconds:.2f} s",
            "ahead": None if best is None else ours["loaded_seconds"] <= best,
        }
    if case.weights:
        best = min((each["off_percent"] for each in theirs), default=None)
        return {
            "aim": f"within {SHARE_AIM_PERCENT} %, Jain {JAIN_AIM}",
            "is": f"{ours['off_percent']:.1f} %, {ours['jain_index']:.4f}",
            "reached": ours["off_percent"] <= SHARE_AIM_PERCENT and ours["jain_index"] >= JAIN_AIM,
            "kernel": None if best is None else f"{best:.1f} %",
            "ahead": None if best is None else ours["off_percent"] <= best,
        }
    if "light" in case.jobs:
        best = min((each["light_latency_us_p99"] for each in theirs), default=None)
        return {
            "aim": "-",
            "is": f"p99 {ours['light_latency_us_p99'] / 1000:.1f} ms",
            "reached": None,
            "kernel": None if best is None else f"{best / 1000:.1f} ms",
            "ahead": None if best is None else ours["light_latency_us_p99"] <= best,
        }
    best = max((each["bytes_per_second"] for each in theirs), default=None)
    aim, is_reached = "-", None
    if "ratio" in ours:
        aim, is_reached = f"{INTERLEAVED_AIM} of one reader", ours["ratio"] >= INTERLEAVED_AIM
    figure = f"{ours['bytes_per_second'] / MIB:.1f} MiB/s"
    return {
        "aim": aim,
        "is": f"{ours['ratio']:.2f}, {figure}" if "ratio" in ours else figure,
        "reached": is_reached,
        "kernel": None if best is None else f"{best / MIB:.1f} MiB/s",
        "ahead": None if best is None else _ahead(ours["bytes_per_second"], best),
    }


def _background(start, seconds):
    """What the background of a start-up moves a second in the first `seconds`, which are not fewer than that took.

    A start-up that takes a minute leaves the background more of each second than one that is over after four; what the
    background has lost shows in one time, the same for both.
    """
    during = start["background_bytes_per_second"]
    # None that was not over in time has an `after`.
    return rate_over(seconds, start["loaded_seconds"], during, start.get("after_bytes_per_second", during))


def _ahead(ours, theirs):
    """Of two rates; where one disk gives both all it has, neither is."""
    return "level" if abs(ours / theirs - 1) < LEVEL else ours > theirs


def _yes(value):
    return value if isinstance(value, str) else "-" if value is None else "yes" if value else "no"


if __name__ == "__main__":
    sys.exit(main())
