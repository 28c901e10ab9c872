"""Runs systems against each other in rounds, and reports: a table for people, JSON for programs."""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import signal
import time

from lib.numbers import median
from lib.servers import Absent
from lib.workplace import RESULTS, Workplace, progress

# Above this share of the machine taken by others, a figure says more about them (the house's rule for records).
DISTURBED_PERCENT = 5


@dataclasses.dataclass(frozen=True)
class Metric:
    """A figure of a run: its name in JSON, with its unit; its heading; how to print it, after a division."""

    name: str
    heading: str
    form: str = "{:.1f}"
    divisor: float = 1

    def show(self, value):
        return self.form.format(value / self.divisor)


def arguments(description, examples, seconds, quick_seconds, rounds, more=lambda parser: None):
    """The options that every comparison has, and `more` of its own."""
    parser = argparse.ArgumentParser(
        description=description,
        epilog="examples:\n" + "\n".join(f"  {line}" for line in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="one short round: to see that it works, not to quote")
    parser.add_argument("--only", default="", metavar="NAMES",
                        help="systems whose names begin with one of these, by commas; `peers` is all but Weir")
    parser.add_argument("--seconds", type=float, metavar="N", help=f"length of a run (default {seconds:g})")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"runs of each system (default {rounds})")
    parser.add_argument("--weir", type=pathlib.Path, metavar="PROGRAM", help="default target/release/weir")
    parser.add_argument("--weir-args", default="", metavar="ARGS", help="further arguments for `weir serve`")
    parser.add_argument("--list", action="store_true", help="name the systems and end")
    more(parser)
    parsed = parser.parse_args()
    parsed.seconds = parsed.seconds or (quick_seconds if parsed.quick else seconds)
    parsed.rounds = parsed.rounds or (1 if parsed.quick else rounds)
    return parsed


class Comparison:
    """Named `cases`, each run on each of `systems`, interleaved, `options.rounds` times."""

    def __init__(self, name, options, metrics, main, note="", base=None, conclude=None, times=None):
        """`main` is the metric whose ratio to Weir's (system `base`, by default the first) is shown, if any; `note`
        explains the table. Cases that have nothing in common give `metrics` and `main` as a dictionary by case, and
        have a table each. Every run has to give `other_cpu_percent` among its figures. `conclude` is given the medians
        by case and system, and gives a text to print below the table and what to write as `conclusion`. `times` has for
        some cases how many rounds each of the `options.rounds` is there, where one would say too little.
        """
        self._name, self._options, self._note, self._base, self._conclude = name, options, note, base, conclude
        self._metrics, self._main, self._times = metrics, main, times or {}
        self._runs, self._skips, self._failures = {}, {}, []

    def run(self, systems, cases, measure):
        """`measure(place, case, system)` gives a run's figures by metric name, or None where there is nothing to
        measure. Returns the exit status.
        """
        chosen = [name for name in systems if self._is_chosen(name)]
        if self._options.list or not chosen:
            # Nothing was begun: who reads the first of them only ends this quietly, as with other commands.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            print("\n".join(systems))
            return 0 if self._options.list else 2
        started = time.time()
        cut_off = None
        try:
            with Workplace() as place:
                for case in cases:
                    rounds = self._options.rounds * self._times.get(case, 1)
                    for turn in range(rounds):
                        for name in chosen:
                            if name not in self._skips:
                                progress(f"{self._name}: {case} on {name}, round {turn + 1} of {rounds}")
                                self._one(case, name, lambda: measure(place, cases[case], systems[name]))
        except SystemExit as ended:
            # What was measured until then is worth telling.
            cut_off = ended
            self._failures.append("cut off: what is missing was not run")
        text, conclusion = "", None
        if self._conclude:
            text, conclusion = self._conclude({key: _medians(runs) for key, runs in self._runs.items()})
        self._print(systems, cases, text)
        self._write(started, time.time(), conclusion)
        if cut_off:
            raise cut_off
        return 1 if self._failures or not self._runs else 0

    def _is_chosen(self, name):
        wanted = [part.strip() for part in self._options.only.split(",") if part.strip()]
        is_weir = name.startswith("weir")
        return not wanted or any(name.startswith(part) or (part == "peers" and not is_weir) for part in wanted)

    def _one(self, case, name, measure):
        try:
            figures = measure()
        except Absent as reason:
            self._skips[name] = str(reason)
            progress(f"skipped: {name}: {reason}")
        except (RuntimeError, ValueError) as error:
            self._failures.append(f"{case} on {name}: {error}")
            progress(f"failed: {case} on {name}: {error}")
        else:
            if figures is not None:
                self._runs.setdefault((case, name), []).append(figures)

    def _print(self, systems, cases, conclusion):
        is_each = len(cases) <= 3 or isinstance(self._metrics, dict)
        for title, chosen in [(case, [case]) for case in cases] if is_each else [("all cases", list(cases))]:
            rows = [row for case in chosen for row in self._rows(systems, case, named=len(chosen) > 1)]
            if rows:
                metrics, main = _of(chosen[0], self._metrics), _of(chosen[0], self._main)
                head = ["system", *(metric.heading for metric in metrics), *(["to Weir"] if main else [])]
                print(f"\n{self._name}: {title}\n")
                print(table([head, *rows]))
        if conclusion:
            print(f"\n{conclusion}")
        if self._note:
            print(f"\n{self._note}")
        for number, (name, reason) in enumerate(self._skips.items(), 1):
            print(f"skipped, {number} of {len(self._skips)}: {name}: {reason}")
        for failure in self._failures:
            print(f"failed: {failure}")
        others = [run["other_cpu_percent"] for runs in self._runs.values() for run in runs]
        if others and max(others) > DISTURBED_PERCENT:
            print(f"disturbed: other work took up to {max(others):.0f} % of the machine (median {median(others):.0f} %)")

    def _rows(self, systems, case, named):
        metrics, main = _of(case, self._metrics), _of(case, self._main)
        base = self._middle(case, self._base or next(iter(systems)), main) if main else None
        for name in systems:
            if (case, name) not in self._runs:
                continue
            row = [f"{case} {name}" if named else name, *(self._cell(case, name, metric) for metric in metrics)]
            if main:
                value = self._middle(case, name, main)
                row.append(f"{value / base:.2f} x" if base and value is not None else "-")
            yield row

    def _middle(self, case, name, metric):
        values = [run[metric] for run in self._runs.get((case, name), []) if run.get(metric) is not None]
        return median(values) if values else None

    def _cell(self, case, name, metric):
        values = [run[metric.name] for run in self._runs[case, name] if run.get(metric.name) is not None]
        if not values:
            return "-"
        if isinstance(values[0], str):
            return values[0] if len(set(values)) == 1 else "/".join(values)
        middle, low, high = metric.show(median(values)), metric.show(min(values)), metric.show(max(values))
        return middle if low == high else f"{middle} ({low}..{high})"

    def _write(self, started, ended, conclusion):
        report = {
            "name": self._name,
            "started_unix_seconds": round(started),
            "duration_seconds": round(ended - started),
            "machine": {"kernel": platform.release(), "cpus": os.cpu_count(), "cpu": _processor()},
            "parameters": {"seconds": self._options.seconds, "rounds": self._options.rounds},
            "results": [
                {"case": case, "system": name, "runs": runs, "median": _medians(runs)}
                for (case, name), runs in self._runs.items()
            ],
            "skips": self._skips,
            "failures": self._failures,
            **({"conclusion": conclusion} if conclusion is not None else {}),
        }
        path = RESULTS / f"{self._name}.json"
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        progress(f"written: {path}")


def table(rows):
    """Rows of text as an aligned table; the first row is its head, the first column its names."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _of(case, given):
    """What is given for a case: one for all, or by case."""
    return given[case] if isinstance(given, dict) else given


def _medians(runs):
    """Of each figure that is a number in some run, of the runs where it is one."""
    numbers = {}
    for run in runs:
        for key, value in run.items():
            if isinstance(value, (int, float)):
                numbers.setdefault(key, []).append(value)
    return {key: median(values) for key, values in numbers.items()}


def _processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return next(names, platform.machine())
