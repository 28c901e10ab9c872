"""The start of an application, from a trace: each of its processes is one here, and waits for each of its reads."""

import json
import pathlib
import subprocess

from lib.servers import Absent, weir_program
from lib.workplace import ROOT, end

# Where the traces are unless said otherwise: beside the repository.
TRACES = ROOT.parent / "shared" / "data" / "startup"


def find(directory):
    """The traces in `directory`, by name."""
    return {path.stem: path for path in sorted(pathlib.Path(directory).glob("*.trace"))}


def by_process(trace):
    """The lines of `trace` by process, in their order; processes that only write are left out."""
    processes = {}
    with open(trace, encoding="utf-8") as lines:
        for line in lines:
            name, words = line.split(maxsplit=1)[0], line.split()
            [anchor] = [place for place, word in enumerate(words) if word in ("Seq", "Rand")]
            # The kind follows distance and run length. A start-up waits for what it reads.
            if words[anchor + 3].startswith("R"):
                processes.setdefault(name, []).append(line)
    return processes


def split(trace, directory):
    """Writes a trace for each process of `trace` into `directory`, and returns their paths."""
    paths = []
    for number, lines in enumerate(by_process(trace).values()):
        path = directory / f"{trace.stem}-{number}.trace"
        path.write_text("".join(lines), encoding="utf-8")
        paths.append(path)
    return paths


def replay(place, parts, target, options, cap_seconds):
    """Replays the split trace on `target`, a device or an NBD URI, a process for each part.

    Returns the seconds until the last has ended, and how much was done by then, in percent: after `cap_seconds` what is
    left is given up.
    """
    command = [options.weir or weir_program(), "replay", "--to", target, "--trace-format", "startup", "--time", "asap"]
    command += ["--depth", 1, "--read-only", "--seconds", cap_seconds, "--format", "json"]
    running = []
    for part in parts:
        log = open(place.fresh("replay", ".log"), "w+", encoding="utf-8")
        place.callback(log.close)
        running.append((place.spawn([*command, part], stdout=subprocess.PIPE, stderr=log, text=True), log))
    reports = []
    try:
        for process, log in running:
            out, _ = process.communicate()
            if process.returncode != 0:
                log.seek(0)
                said = log.read().strip()
                if "unrecognized subcommand" in said:
                    raise Absent("this weir has no `replay`")
                raise RuntimeError(f"weir replay failed with status {process.returncode}: {said[-600:]}")
            reports.append(json.loads(out))
    finally:
        for process, _ in running:
            end(process)
    done = sum(report["reads"]["requests"] for report in reports)
    return max(report["elapsed_ns"] for report in reports) / 1e9, 100 * done / requests(parts)


def requests(parts):
    """How many requests the parts of a trace have together."""
    return sum(len(part.read_text(encoding="utf-8").splitlines()) for part in parts)
