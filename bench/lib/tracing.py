"""What the kernel's tracing tells of one block device: requests, commits of its journal, syncs of its files. Root only."""

import contextlib
import dataclasses
import os
import pathlib
import re
import subprocess

from lib.servers import Absent
from lib.workplace import own_name, stale

# Requests as they are queued and completed, the commits of ext4's journal, and fsync and fdatasync as ext4 gets them.
_EVENTS = (
    "block/block_bio_queue",
    "block/block_rq_complete",
    "jbd2/jbd2_start_commit",
    "jbd2/jbd2_end_commit",
    "ext4/ext4_sync_file_enter",
    "ext4/ext4_sync_file_exit",
)

_LINE = re.compile(r"\s*(?P<command>.+)-(?P<pid>\d+)\s+\[\d+\]\s+\S+\s+(?P<time>\d+\.\d+): (?P<event>\w+): (?P<what>.*)")
_REQUEST = re.compile(r"\d+,\d+ (?P<does>\w+) (\(.*?\) )?(?P<sector>\d+) \+ (?P<sectors>\d+)(?P<rest>.*)")
# Class, hint, level.
_LEVEL = re.compile(r" be,\d+,(?P<level>\d)")
_COMMIT = re.compile(r"dev \S+ transaction (?P<number>\d+)")


@dataclasses.dataclass(frozen=True)
class Event:
    """One line: who did what when, in microseconds.

    `kind` is "queue", "complete", "commit", "committed", "sync" or "synced"; the first two have a place and what they
    do (the letters of blkparse), `number` is a commit's.
    """

    at_us: int
    pid: int
    command: str
    kind: str
    does: str = ""
    sector: int = 0
    sectors: int = 0
    level: int | None = None
    number: int = 0


_KINDS = dict(zip((event.split("/")[1] for event in _EVENTS),
                  ("queue", "complete", "commit", "committed", "sync", "synced")))


def parse(lines):
    """The events among `lines`, in order of time."""
    events = []
    for line in lines:
        found = _LINE.fullmatch(line.rstrip("\n"))
        kind = found and _KINDS.get(found["event"])
        if not kind:
            if "LOST" in line:
                raise RuntimeError(f"the kernel's buffer was too small: {line.strip()}")
            continue
        at_us = round(float(found["time"]) * 1e6)
        who = (at_us, int(found["pid"]), found["command"].strip(), kind)
        if kind in ("queue", "complete"):
            what = _REQUEST.match(found["what"])
            level = _LEVEL.search(what["rest"])
            events.append(Event(*who, what["does"], int(what["sector"]), int(what["sectors"]),
                                int(level["level"]) if level else None))
        elif kind in ("commit", "committed"):
            events.append(Event(*who, number=int(_COMMIT.match(found["what"])["number"])))
        else:
            events.append(Event(*who))
    return sorted(events, key=lambda event: event.at_us)


class KernelTrace(contextlib.ExitStack):
    """Traces `device` (a path) from entering on, in a buffer of its own; `lines` ends that and gives what there is."""

    def __init__(self, place, device):
        super().__init__()
        self._place, self._device = place, device

    def __enter__(self):
        super().__enter__()
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def lines(self):
        (self._instance / "tracing_on").write_text("0", encoding="ascii")
        return (self._instance / "trace").read_text(encoding="utf-8", errors="replace").splitlines()

    def _start(self):
        if os.geteuid() != 0:
            raise Absent("tracing needs root")
        root = self._place.fresh("tracing")
        root.mkdir()
        mounted = subprocess.run(["mount", "-t", "tracefs", "none", root], capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            raise Absent(f"no tracefs: {mounted.stderr.strip()}")
        self.callback(subprocess.run, ["umount", "--lazy", root], check=False)
        for left in stale(root / "instances"):
            left.rmdir()
        self._instance = root / "instances" / own_name()
        self._instance.mkdir()
        self.callback(_remove, self._instance)
        number = os.stat(self._device).st_rdev
        number = (os.major(number) << 20) | os.minor(number)
        self._write("trace_clock", "mono")
        self._write("buffer_size_kb", "32768")
        for event in _EVENTS:
            if not (self._instance / "events" / event).exists():
                raise Absent(f"this kernel does not trace {event}")
            self._write(f"events/{event}/filter", f"dev == {number}")
            self._write(f"events/{event}/enable", "1")
        self._write("tracing_on", "1")

    def _write(self, name, text):
        pathlib.Path(self._instance, name).write_text(text, encoding="ascii")


def _remove(instance):
    (instance / "tracing_on").write_text("0", encoding="ascii")
    instance.rmdir()
