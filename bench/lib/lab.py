"""`weir lab`: jobs in virtual time, against the model of a disk."""

import json
import subprocess

from lib.servers import Absent, weir_program
from lib.workplace import end

# The job file's name for the whole disk.
_DISK = "/dev/disk"


def job_file(jobs, **options):
    """A fio job file with a section for each of `jobs` (name -> options) and `options` for all."""
    lines = _section("global", {"filename": _DISK, **options})
    for name, own in jobs.items():
        lines += _section(name, own)
    return "".join(f"{line}\n" for line in lines)


def scenario(about, disk, jobs, weights, **options):
    """A scenario's file: the jobs, and the disk and the cgroups' weights around them."""
    lines = [f"about = {json.dumps(about)}", f"disk = {json.dumps(disk)}"]
    if weights:
        lines.append(f"weight = {json.dumps([f'/{cgroup} {weight}' for cgroup, weight in weights.items()])}")
    # A literal string: job files have no apostrophes, and backslashes would stay what they are.
    return "\n".join(lines) + f"\njob = '''\n{job_file(jobs, **options)}'''\n"


def run(place, options, what, *flags, form="json"):
    """The report, in the form that `--format` names, of a job file or scenario as the comparison's `options` say."""
    command = [options.weir or weir_program(), "lab", "run", what, *flags, "--format", form]
    process = place.spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, errors = process.communicate()
    finally:
        end(process)
    if process.returncode == 2 and "unrecognized subcommand" in errors:
        raise Absent("this weir has no `lab run`")
    if process.returncode != 0:
        raise RuntimeError(f"weir lab run failed with status {process.returncode}: {errors.strip()[-600:]}")
    return json.loads(out)


def _section(name, options):
    return [f"[{name}]", *(f"{key}={value}" for key, value in options.items())]
