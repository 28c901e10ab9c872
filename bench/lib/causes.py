"""From a trace of what happened when to a recording of what waited for what.

A trace has times, and times are those of the disk that was traced. On another disk, or under another scheduler, a
request comes when what it waited for is done, and a moment later. Here that is found out:

* a process asks for more after its own requests before it were done, and after the commit that its fsync waited for;
* the journal begins a commit when the first of those asks that will wait for it, and goes on in it step by step;
* a program's next process begins when the one before it has ended.
"""

import dataclasses

# The return from fsync follows the end of the commit it waited for within this time.
_WAKE_US = 5000


@dataclasses.dataclass
class Request:
    """One request: `after` are indices of others that are done `delay_us` before it comes.

    `op` is "R", "W" or "F", a flush, which has no place. The time of what waits for nothing is `delay_us` itself.
    """

    pid: int
    op: str
    sync: bool
    metadata: bool
    sector: int
    sectors: int
    after: tuple = ()
    delay_us: int = 0


@dataclasses.dataclass
class _Whole:
    """A request as it was queued: one with flushes around it is several in the recording."""

    event: object
    done_us: int | None = None
    last: int | None = None


@dataclasses.dataclass
class _Gate:
    """What the next request of a process waits for, and when that was there."""

    after: frozenset = frozenset()
    at_us: int = 0


@dataclasses.dataclass
class _Process:
    gate: _Gate = dataclasses.field(default_factory=_Gate)
    # Done since the gate was passed, with the times.
    fresh: dict = dataclasses.field(default_factory=dict)
    began: bool = False

    def settle(self):
        """The gate, with all that is done by now."""
        if self.fresh:
            self.gate = _Gate(frozenset(self.fresh), max(self.fresh.values()))
            self.fresh = {}
        return self.gate


@dataclasses.dataclass
class _Sync:
    """One fsync. It asks for a commit at `asks_us`, when its own data was written; `commit` is the one it waited for."""

    pid: int
    from_us: int
    until_us: int
    asks_us: int = 0
    commit: int | None = None


def recording(events, before):
    """The requests of `events`, in the order in which they came. `before` has for each process the one it follows."""
    events = _from_the_first(events)
    wholes = _wholes(events)
    commits = _commits(events)
    syncs = _syncs(events, wholes, commits)
    first = {}
    for sync in sorted((sync for sync in syncs if sync.commit is not None), key=lambda sync: sync.asks_us):
        first.setdefault(sync.commit, sync.pid)

    start_us = min((event.at_us for event in events), default=0)
    processes, requests = {}, []
    who = lambda pid: processes.setdefault(pid, _Process(_Gate(at_us=start_us)))
    commit_gate, written = None, {}
    waits = {(sync.pid, sync.until_us): sync for sync in syncs}

    # Completions count before what comes at the same microsecond.
    steps = [(whole.done_us, 0, "done", whole) for whole in wholes if whole.done_us is not None]
    steps += [(event.at_us, 1, event.kind, event) for event in events if event.kind != "complete"]
    queued = {id(whole.event): whole for whole in wholes}
    for at_us, _, kind, step in sorted(steps, key=lambda step: step[:2]):
        if kind == "done":
            # One that ends before it has come in the order of steps is not known yet; nobody can wait for it.
            if step.last is not None:
                who(step.event.pid).fresh[step.last] = at_us
        elif kind == "commit":
            own = who(step.pid).settle()
            asker = who(first[step.number]).settle() if step.number in first else own
            commit_gate = _Gate(own.after | asker.after, max(own.at_us, asker.at_us))
            processes[step.pid].gate = commit_gate
        elif kind == "committed":
            journal = who(step.pid)
            written[step.number] = frozenset(journal.fresh) or journal.gate.after
        elif kind == "synced":
            sync = waits.get((step.pid, at_us))
            if sync and sync.commit in written:
                who(step.pid).fresh.update(dict.fromkeys(written[sync.commit], commits[sync.commit][1]))
        elif kind == "queue":
            process = who(step.pid)
            if not process.began and before.get(step.pid) is not None:
                process.gate = who(before[step.pid]).settle()
            process.began = True
            queued[id(step)].last = _append(requests, step, process.settle())
    return requests


def _append(requests, event, gate):
    """Appends the request, with the flushes before and after its data as requests of their own. Answers the last."""
    before, data, after = parts(event)
    sync = "S" in event.does or event.does.startswith(("R", "F"))
    cause = (tuple(sorted(gate.after)), max(event.at_us - gate.at_us, 0))
    for op in [*"F" * before, *data, *"F" * after]:
        place = (0, 0) if op == "F" else (event.sector, event.sectors)
        requests.append(Request(event.pid, op, sync, "M" in event.does, *place, *cause))
        cause = ((len(requests) - 1,), 0)
    return len(requests) - 1


def parts(event):
    """Whether a flush comes before the data, what is done with the data, and whether a flush follows."""
    does = event.does
    flush = does.startswith("F")
    does = does.removeprefix("F")
    if event.sectors == 0:
        return False, "F", False
    # What must be through the disk's cache (FUA) is written and flushed: disks are not asked whether they know better.
    return flush, "R" if does.startswith("R") else "W", "F" in does


def _wholes(events):
    """The requests that were queued, each with the time of its completion, if that was seen."""
    wholes, waiting = [], []
    for event in events:
        if event.kind == "queue" and event.does[0] in "RWF":
            wholes.append(_Whole(event))
            waiting.append(wholes[-1])
        elif event.kind == "complete":
            for one in [one for one in waiting if _ends(event, one.event)]:
                one.done_us = event.at_us
                waiting.remove(one)
                if event.sectors == 0:
                    # Flushes and what goes with them end one by one, in their order.
                    break
    return wholes


def _ends(done, asked):
    """Whether a completion is that of a request.

    One with a flush before or after it is completed as often as it has parts, the last time without sectors; and what
    the kernel flushes on its behalf ("FF") is none of its own.
    """
    before, data, after = parts(asked)
    if before or after or data == "F":
        return done.sectors == 0 and done.sector == asked.sector and not done.does.startswith("F")
    return done.sector <= asked.sector and asked.sector + asked.sectors <= done.sector + done.sectors


def _from_the_first(events):
    """The events, with each commit where its first request is: some of those come before the kernel tells of it."""
    moved, pending, first = [], {}, {}
    journals = {event.pid for event in events if event.kind == "commit"}
    for event in events:
        if event.kind == "queue" and event.pid in journals:
            first.setdefault(event.pid, (len(moved), event.at_us))
        elif event.kind == "commit" and event.pid in first and not pending.get(event.pid):
            place, at_us = first[event.pid]
            moved.insert(place, dataclasses.replace(event, at_us=at_us))
            pending[event.pid] = True
            continue
        elif event.kind == "commit":
            pending[event.pid] = True
        elif event.kind == "committed":
            pending[event.pid] = False
            first.pop(event.pid, None)
        moved.append(event)
    return moved


def _commits(events):
    """Beginning and end of each commit."""
    commits = {}
    for event in events:
        if event.kind == "commit":
            commits[event.number] = [event.at_us, None]
        elif event.kind == "committed" and event.number in commits:
            commits[event.number][1] = event.at_us
    return {number: times for number, times in commits.items() if times[1] is not None}


def _syncs(events, wholes, commits):
    """All fsyncs, with the commit that each waited for."""
    syncs, entered = [], {}
    done = {}
    for whole in wholes:
        if whole.done_us is not None:
            done.setdefault(whole.event.pid, []).append(whole.done_us)
    ends = sorted((times[1], number) for number, times in commits.items())
    for event in events:
        if event.kind == "sync":
            entered[event.pid] = event.at_us
        elif event.kind == "synced" and event.pid in entered:
            sync = _Sync(event.pid, entered.pop(event.pid), event.at_us)
            waited = [end for end in ends if sync.from_us <= end[0] <= sync.until_us]
            own = [at_us for at_us in done.get(event.pid, ()) if sync.from_us <= at_us <= sync.until_us]
            if waited and sync.until_us - waited[-1][0] <= _WAKE_US and all(at <= waited[-1][0] for at in own):
                sync.commit = waited[-1][1]
                sync.asks_us = max([sync.from_us, *own])
            syncs.append(sync)
    return syncs
