#!/usr/bin/env python3
"""How the lab's time grows with processes: 40 to 100,000 of them, four in a cgroup at its limit, 200 I/Os each."""

import argparse
import json
import subprocess

from lib import plot
from lib.growth import power, rates_of
from lib.numbers import median
from lib.usage import Disturbance
from lib.workplace import RESULTS, ROOT, progress

ROWS = "x 4 processes at limits"
IOS_EACH = 200

X_TICKS = [(40, "40"), (400, "400"), (4000, "4,000"), (40_000, "40,000"), (100_000, "100,000")]
Y_TICKS = [(0.001, "1 ms"), (0.01, "10 ms"), (0.1, "100 ms"), (1, "1 s"), (10, "10 s"), (30, "30 s")]


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__ + "\n\nCPU seconds of the thread that simulates, setting up and the report included, from `cargo bench -p weir-lab`."
        "\nIn step: all cgroups have the same limit, so processes go in the order in which they lie in memory. In no order:"
        "\neach has its own. The curve is drawn in target/bench/growth.svg.",
        epilog="examples:\n  bench/growth.py             three rounds\n  bench/growth.py --rounds 1  does it work?",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each (default 3)")
    return parser.parse_args()


def main():
    options = arguments()
    seen = {}
    disturbance = Disturbance()
    for number in range(options.rounds):
        progress(f"growth: round {number + 1} of {options.rounds}")
        run = ["cargo", "bench", "--quiet", "--locked", "-p", "weir-lab", "--bench", "speed", "--", ROWS]
        output = subprocess.run(run, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
        for order, rates in rates_of(output).items():
            for processes, rate in rates.items():
                seen.setdefault(order, {}).setdefault(processes, []).append(rate)

    curves = {
        order: [(processes, processes * IOS_EACH / median(rates)) for processes, rates in sorted(of.items())]
        for order, of in seen.items()
    }
    print(f"{'':<13}{'processes':>10}{'M I/Os a CPU s':>22}{'CPU s':>10}{'times':>9}{'power':>8}")
    for order, points in curves.items():
        powers = ["", *(f"{each:.2f}" for each in power(points))]
        for (processes, seconds), shown in zip(points, powers):
            rates = [rate / 1e6 for rate in seen[order][processes]]
            spread = f"{median(rates):.2f} ({min(rates):.2f}..{max(rates):.2f})"
            print(f"{order:<13}{processes:>10,}{spread:>22}{seconds:>10.3f}{seconds / points[0][1]:>9.4g}{shown:>8}")
    print("\ntimes: as long as the first. power: the number of processes to that power; 1 is in proportion.")

    RESULTS.mkdir(parents=True, exist_ok=True)
    drawing = plot.growth("The lab, four processes in a cgroup at its limit", "processes", "CPU time", curves, X_TICKS, Y_TICKS)
    (RESULTS / "growth.svg").write_text(drawing)
    found = {"disturbed_percent": disturbance.percent(0), "rates_per_cpu_second": seen, "seconds": curves}
    (RESULTS / "growth.json").write_text(json.dumps(found, indent=2) + "\n")
    print(f"written: {RESULTS / 'growth.json'}, growth.svg")


if __name__ == "__main__":
    main()
