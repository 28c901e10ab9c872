"""The jobs that `kernel.py` gives to every scheduler, as fio's options; nothing here runs anything.

Each job is a process with one request at a time, as programs that wait for their data have: whatever is gained
must come from the order in which a scheduler serves them, and from its waiting for the next one.
"""

import dataclasses

# What holds for all jobs. Regions are as large as disks are, so no map of what was read already is kept.
COMMON = {"direct": 1, "time_based": 1, "norandommap": 1}

# From the start of a load until things count.
WARM_SECONDS = 3

INTERLEAVED_READERS = 3
WEIGHTS = {"a": 100, "b": 200, "c": 400}
FLOWS, STREAMS, LIGHT = 1000, 40, 5


@dataclasses.dataclass(frozen=True)
class Row:
    """Jobs by name. A job's `cgroup` is a key of `weights`; jobs without one are all in the same.

    `about` says in a line what it shows, `against` which of `ALONE` it is measured by. Things count from `warm_seconds`
    on, for `seconds_factor` times as long as was asked for: where a request takes seconds, it takes longer to see many.
    """

    about: str
    jobs: dict
    weights: dict = dataclasses.field(default_factory=dict)
    against: tuple = ()
    warm_seconds: int = WARM_SECONDS
    seconds_factor: int = 1


def _sequential(at_gib, **more):
    return {"rw": "read", "bs": "128k", "offset": f"{at_gib}g", "size": "4g", **more}


def _random(**more):
    return {"rw": "randread", "bs": "4k", **more}


# Where applications' files are not; the writers go over little again and again, for it is kept in memory.
BACKGROUND = {
    **{f"reader{number}": _sequential(300 + 10 * number) for number in range(5)},
    **{f"writer{number}": _sequential(400 + 10 * number, rw="write", size="256m") for number in range(5)},
}

# What the others are measured by.
ALONE = {
    "sequential": Row("One sequential reader.", {"one": _sequential(10)}),
    "random": Row("One random reader.", {"one": _random()}),
}


def _interleaved():
    skip = 128 * (INTERLEAVED_READERS - 1)
    jobs = {
        f"reader{number}": {"rw": f"read:{skip}k", "bs": "128k", "offset": (10 << 30) + (number << 17), "size": "4g"}
        for number in range(INTERLEAVED_READERS)
    }
    return Row("Three processes read one region in turn, 128 KiB each.", jobs, against=("sequential",))


def _weighted(about, *kinds, **more):
    """Each cgroup has the same jobs; all sequential ones are where the disk is equally fast."""
    jobs = {}
    for number, cgroup in enumerate(WEIGHTS):
        if "sequential" in kinds:
            jobs[f"{cgroup}-sequential"] = _sequential(10 + 15 * number, cgroup=cgroup)
        if "random" in kinds:
            jobs[f"{cgroup}-random"] = _random(cgroup=cgroup)
    return Row(about, jobs, WEIGHTS, **more)


ROWS = {
    "interleaved readers": _interleaved(),
    "weights, sequential": _weighted("Weights 100, 200 and 400, a sequential reader each.", "sequential"),
    "weights, random": _weighted("Weights 100, 200 and 400, a random reader each.", "random"),
    "weights, mixed": _weighted(
        "Weights 100, 200 and 400, a sequential and a random reader each.",
        "sequential",
        "random",
        # A slice is up to 15 MiB, and the least of three gets 62 MiB in 10 s: one more or less is more than the aim allows.
        seconds_factor=3,
    ),
    "two sequential, one random": Row(
        "Two sequential readers and a random one, all of one weight.",
        {"sequential1": _sequential(10), "sequential2": _sequential(40), "random": _random()},
        against=("sequential", "random"),
    ),
    "1,000 flows": Row(
        "A thousand readers; five of them ask for 4 KiB and think for half a second.",
        {
            "stream": _sequential(10, offset_increment="8g", numjobs=STREAMS),
            "random": _random(numjobs=FLOWS - STREAMS - LIGHT),
            # Later, for programs do not start all at once.
            "light": _random(numjobs=LIGHT, thinktime="500ms", startdelay=5),
        },
        warm_seconds=10,
        seconds_factor=3,
    ),
}
