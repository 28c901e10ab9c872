"""The little statistics that the comparisons need."""

import math


def median(values):
    """The middle value; the mean of the two middle ones when their number is even."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def percentile(ordered, percent):
    """The smallest of the ordered values that `percent` per cent of them do not exceed (nearest rank).

    No interpolation: what it returns was measured.
    """
    # A small allowance keeps 99.9 % of 1000 at rank 999, not 1000, where the product is 999.0000000000001.
    rank = math.ceil(len(ordered) * percent / 100 - 1e-9)
    return ordered[max(rank, 1) - 1]


def jain(shares):
    """Jain's index of fairness: 1 when all shares are equal, 1/n when one has everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def rate_over(seconds, first_seconds, first, then):
    """The mean rate over `seconds`, when it is `first` for `first_seconds` and `then` for the rest."""
    return (first * first_seconds + then * (seconds - first_seconds)) / seconds


def rate_between_batches(times, amounts):
    """Amount per second between the first and the last completion that open a batch.

    `times` are completion times in ns, ascending; `amounts` what each brought. A limiter may let requests go one
    by one or a slice's worth at a time. A completion opens a batch when the gap before it is longer than half
    the mean gap. From one opening to another there are whole batches only, so that the edge of the window
    does not decide: for evenly spaced completions this is (n - 1) / (t_last - t_first).
    """
    if len(times) < 3:
        raise ValueError(f"{len(times)} completions are too few to tell a rate")
    half_mean = (times[-1] - times[0]) / (len(times) - 1) / 2
    opens = [i for i in range(1, len(times)) if times[i] - times[i - 1] > half_mean]
    first, last = opens[0], opens[-1]
    if first == last:
        raise ValueError("all completions came in one batch")
    return sum(amounts[first:last]) / ((times[last] - times[first]) / 1e9)
