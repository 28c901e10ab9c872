"""How a time grows with a number: what the lab's bench prints, and powers."""

import math
import re

_ROW = re.compile(r"^(\d+) cgroups x 4 processes at limits, (.+?)\s+\d+\s+[\d.]+\s+(\d+)$")


def rates_of(output):
    """I/Os a CPU second of each row of the bench: order -> processes -> rate."""
    rates = {}
    for line in output.splitlines():
        if row := _ROW.match(line.strip()):
            cgroups, order, rate = row.groups()
            rates.setdefault(order, {})[4 * int(cgroups)] = int(rate)
    return rates


def power(points):
    """By what power y grows with x from the first point to each: 1 is in proportion."""
    (x, y), rest = points[0], points[1:]
    return [math.log(later / y) / math.log(further / x) for further, later in rest]
