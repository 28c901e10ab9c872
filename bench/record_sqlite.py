#!/usr/bin/env python3
"""Records the I/O of real sqlite3 processes, for `weir lab reproduce stable-merge`. Root only.

The pattern is that of the Phoronix suite's "Timed SQLite Insertions" (pts/sqlite 2.1): so many copies at a time, each
with a database of its own, into which a process makes a table, and then three processes, one after the other, insert
rows, one transaction a row. It runs on ext4 on a loop device over an emulated disk in real time, so that the
commits of the journal gather what they gather on such a disk.
"""

import argparse
import gzip
import os
import pathlib
import subprocess
import sys

from lib import causes, tracing
from lib.disk import KernelDisk
from lib.servers import Absent, installed
from lib.workplace import ROOT, Workplace, progress

TABLE = ("CREATE TABLE pts1 ('I' SMALLINT NOT NULL, 'DT' TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, "
         "'F1' VARCHAR(4) NOT NULL, 'F2' VARCHAR(16) NOT NULL);")
ROUNDS = 3
OUTPUT = ROOT / "crates/lab/data/sqlite.rec.gz"

# Each process writes down who it is and becomes sqlite3, so that the number is that of the trace.
SCRIPT = """
run() { sh -c 'echo $$ $0 $1 >>"$log"; exec sqlite3 "$directory/benchmark-$0.db"' "$1" "$2"; }
copy() {
    run "$1" 0 <"$table"
    for round in $(seq "$rounds"); do run "$1" "$round" <"$rows"; done
}
for number in $(seq "$copies"); do copy "$number" & done
wait
"""


def main():
    options = _arguments()
    try:
        with Workplace() as place:
            processes, events = _record(place, options)
    except Absent as absent:
        sys.exit(f"cannot record: {absent}")
    requests = causes.recording(events, followers(processes))
    long = cut(requests, options.pause_max_us)
    progress(f"{long} of {len(requests)} pauses were longer than {options.pause_max_us} us, and are cut to that")
    text = render(processes, requests, events, options)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    # No time and no name in it: the same requests make the same file.
    options.output.write_bytes(gzip.compress(text.encode("ascii"), 9, mtime=0))
    progress(f"{options.output}: {text.count(chr(10))} lines, {options.output.stat().st_size} bytes")


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=8, help="processes at a time (8)")
    parser.add_argument("--rows", type=int, default=100, help="rows that each process inserts (100; the suite: 2500)")
    parser.add_argument("--disk", default="hdd7200,size=4G", help="the disk below (hdd7200,size=4G)")
    parser.add_argument("--pause-max-us", type=int, default=2000, help="longest pause that is believed (2000)")
    parser.add_argument("--output", type=pathlib.Path, default=OUTPUT, help=f"the recording ({OUTPUT.name})")
    parser.add_argument("--keep-trace", type=pathlib.Path, help="a file for the lines of the kernel, for looking at them")
    return parser.parse_args()


def _record(place, options):
    installed("sqlite3")
    # Whatever else the machine does should not show in the pauses.
    place.before_each = lambda: os.nice(-15)
    device = place.enter_context(KernelDisk(place, options.disk, "none")).path
    progress("making a file system")
    subprocess.run([installed("mkfs.ext4"), "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device], check=True)
    directory = place.fresh("files")
    directory.mkdir()
    # Nobody else is to write in the meantime.
    subprocess.run(["mount", "-o", "noinit_itable", device, directory], check=True)
    place.callback(subprocess.run, ["umount", directory], check=False)
    subprocess.run(["sync", "--file-system", directory], check=True)
    files = {name: place.fresh(name) for name in ("log", "table", "rows")}
    files["table"].write_text(TABLE + "\n", encoding="ascii")
    row = "INSERT INTO pts1 ('I', 'DT', 'F1', 'F2') VALUES ('{0}', CURRENT_TIMESTAMP, 'F{1}', 'value {0}');\n"
    files["rows"].write_text("".join(row.format(i, i % 100) for i in range(options.rows)), encoding="ascii")
    variables = {"copies": options.copies, "rounds": ROUNDS, "directory": directory, **files}
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    progress(f"{options.copies} copies insert {ROUNDS} times {options.rows} rows each")
    with tracing.KernelTrace(place, device) as trace:
        # The level that processes have if nobody says anything, which their niceness would change.
        usual = [installed("ionice"), "-c", "2", "-n", "4"]
        process = place.spawn([*usual, "sh", "-e", "-c", SCRIPT], env=environment)
        if process.wait() != 0:
            raise RuntimeError(f"the script ended with status {process.returncode}")
        lines = trace.lines()
    if options.keep_trace:
        options.keep_trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    log = [line.split() for line in files["log"].read_text(encoding="ascii").splitlines()]
    return {int(pid): (int(copy), int(turn)) for pid, copy, turn in log}, tracing.parse(lines)


def followers(processes):
    """For each process the one that it follows, or None."""
    by_turn = {who: pid for pid, who in processes.items()}
    return {pid: by_turn.get((copy, turn - 1)) for pid, (copy, turn) in processes.items()}


def cut(requests, pause_max_us):
    """Shortens pauses that are no program's: nothing here computes for milliseconds, but a busy machine lets it wait for
    a processor. Answers how many there were.
    """
    long = [request for request in requests if request.after and request.delay_us > pause_max_us]
    for request in long:
        request.delay_us = pause_max_us
    return len(long)


def render(processes, requests, events, options):
    """The recording as text: the processes, then the requests.

    `process NAME LEVEL`, numbered from 0 as they come, with the level of their I/O priority. A request is its process,
    what it does (R, W, F for flush; s where somebody waits for it, a where nobody does; m for metadata), its first
    sector and its sectors, microseconds of pause, and what it waits for: how many requests further up, several with
    commas, or `-`.
    """
    levels = {}
    commands = {}
    for event in events:
        if event.kind == "queue":
            commands.setdefault(event.pid, event.command)
    # Completions are told by whoever takes them; what was asked for tells whose level it is.
    places = {}
    for event in events:
        if event.kind == "queue" and event.sectors:
            places[event.sector] = event.pid
        elif event.kind == "complete" and event.level is not None and event.sector in places:
            levels.setdefault(places[event.sector], event.level)
    numbers = {}
    for request in requests:
        numbers.setdefault(request.pid, len(numbers))
    lines = [
        "# Requests of sqlite3 processes and their file system, as the kernel traced them; see bench/record_sqlite.py.",
        f"# {options.copies} copies, {ROUNDS} processes of {options.rows} rows each; ext4 on {options.disk}.",
        f"# Pauses are at most {options.pause_max_us} us.",
    ]
    for pid in numbers:
        copy = processes.get(pid)
        name = f"sqlite3-{copy[0]}.{copy[1]}" if copy else commands[pid].split("/")[0].split(":")[0]
        lines.append(f"process {name} {levels.get(pid, 4)}")
    for index, request in enumerate(requests):
        after = ",".join(str(index - other) for other in request.after) or "-"
        does = request.op + ("s" if request.sync else "a") + ("m" if request.metadata else "")
        place = f"{request.sector} {request.sectors}"
        lines.append(f"{numbers[request.pid]} {does} {place} {request.delay_us} {after}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
