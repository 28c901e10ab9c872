"""Tenants of one emulated disk, in real time: in cgroups of the kernel's on a loop device, or in Weir's behind NBD.

Both have one face: `open(place, tenants)` gives a `Shared`, whose `at` turns a job into fio's options for its tenant.
"""

import contextlib
import dataclasses
import functools
import http.client
import json
import os
import pathlib
import socket
import subprocess
from collections.abc import Callable

from lib import servers
from lib.blkthrottle import limit_lines
from lib.cgroups import Cgroups, weight_line
from lib.disk import KernelDisk
from lib.servers import Absent
from lib.workplace import RESULTS


@dataclasses.dataclass(frozen=True)
class Tenant:
    """A cgroup: its `weight`, its `limits` by the keys of io.max, its class for schedulers that know classes ("rt", "be"
    or "idle"), and further `settings` of Weir's cgroups.
    """

    weight: int = 100
    limits: dict = dataclasses.field(default_factory=dict)
    prio: str = ""
    settings: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Shared:
    """A disk that tenants share. `at(tenant, job)` gives fio's options, `disk_bytes` what the disk has moved so far."""

    at: Callable
    disk_bytes: Callable
    cpu_seconds: Callable


class Kernel:
    """The disk as a loop device over `weir disk mount`, under a scheduler of the kernel's, with cgroups and ioprio.

    `holds` says what of a tenant is carried out: "weight" (BFQ's), "limits" (io.max or its forerunner) and "prio".
    """

    def __init__(self, options, scheduler, holds=(), direct=True, **tunables):
        self._options, self._scheduler, self._holds = options, scheduler, set(holds)
        self._direct, self._tunables = direct, tunables

    @contextlib.contextmanager
    def open(self, place, tenants):
        options = self._options
        with (
            KernelDisk(place, options.disk, self._scheduler, options.weir, self._tunables) as disk,
            _cgroups(disk.path, tenants, self._holds) as cgroups,
        ):
            if not self._direct:
                _limit_dirty(disk.path)

            def at(name, job):
                job = {"ioengine": "libaio" if job.get("iodepth", 1) > 1 else "psync", "filename": disk.path,
                       "direct": int(self._direct), **job}
                prio = tenants[name].prio
                if "prio" in self._holds and prio:
                    job["prioclass"] = {"rt": 1, "be": 2, "idle": 3}[prio]
                    # The best of its class; idle has no levels.
                    job |= {} if prio == "idle" else {"prio": 0}
                return job | {"exec_prerun": cgroups.join(name)} if cgroups.are_there else job

            yield Shared(at, lambda: _loop_bytes(disk.path), disk.cpu_seconds)


class Weir:
    """`weir serve` with the emulated disk. `device` are settings of it, as the configuration has them, or functions that
    answer them; `holds` as the kernel's, with "settings".
    """

    def __init__(self, options, holds=(), **device):
        self._options, self._holds, self._device = options, set(holds), device

    @contextlib.contextmanager
    def open(self, place, tenants):
        cgroups = {name: self._cgroup(tenant) for name, tenant in tenants.items()}
        control = place.fresh_socket()
        given = {key: value() if callable(value) else value for key, value in self._device.items()}
        device = {"path": f"emulated:{self._options.disk}", **given}
        with servers.weir_tenants(place, self._options, device, cgroups, control) as server:
            uris = {name: server.uri(number) for number, name in enumerate(tenants)}

            def at(name, job):
                # There is no page cache at this end of a socket.
                return {"ioengine": "nbd", "uri": uris[name], **job}

            yield Shared(at, lambda: _weir_bytes(control), server.cpu_seconds)

    def _cgroup(self, tenant):
        lines = {}
        if "weight" in self._holds:
            lines["io.weight"] = tenant.weight
        if "limits" in self._holds and tenant.limits:
            lines["io.max"] = "disk " + " ".join(f"{key}={value}" for key, value in tenant.limits.items())
        if "prio" in self._holds and tenant.prio:
            lines["io.prio.class"] = {"rt": "promote-to-rt", "be": "restrict-to-be", "idle": "idle"}[tenant.prio]
        return lines | (tenant.settings if "settings" in self._holds else {})


def _cgroups(device, tenants, holds):
    """The kernel's cgroups for tenants, with as much of them as `holds` says."""
    status = os.stat(device)
    number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"

    def lines(tenant, version):
        weight = [weight_line(version, tenant.weight)] if "weight" in holds else []
        limits = limit_lines(version, number, tenant.limits) if "limits" in holds and tenant.limits else []
        return weight + limits

    are_there = holds & {"weight", "limits"}
    return Cgroups({name: functools.partial(lines, tenant) for name, tenant in tenants.items()} if are_there else {})


# What a page cache may hold of a device before its writers wait: as much as Weir's, and not gigabytes, which a slow
# disk takes minutes to write at the end.
DIRTY_BYTES = 64 << 20


def _limit_dirty(device):
    queue = pathlib.Path("/sys/block", pathlib.Path(device).name, "bdi")
    for file, value in (("strict_limit", 1), ("max_bytes", DIRTY_BYTES)):
        try:
            (queue / file).write_text(str(value), encoding="ascii")
        except OSError as error:
            raise Absent(f"this kernel does not limit the dirty pages of a device: {error}") from None


@functools.cache
def model_of(program, disk):
    """The file that `weir calibrate` writes of an emulated disk."""
    path = RESULTS / "emulated.model.toml"
    command = [program or servers.weir_program(), "calibrate", f"emulated:{disk}", "--virtual-time", "--write"]
    done = subprocess.run([*command, "--output", path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"weir calibrate failed: {done.stderr.strip()[-600:]}")
    return str(path)


def _loop_bytes(device):
    """Bytes that a block device has read and written, from its counters in sysfs."""
    fields = pathlib.Path("/sys/block", pathlib.Path(device).name, "stat").read_text(encoding="ascii").split()
    return 512 * (int(fields[2]) + int(fields[6]))


class _Control(http.client.HTTPConnection):
    """The control socket of a server, which speaks HTTP."""

    def __init__(self, path):
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def weir_status(control):
    """What a server tells about its one device."""
    connection = _Control(control)
    try:
        connection.request("GET", "/v1/status")
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"the server's status: {answer.status} {body[:200]!r}")
        return json.loads(body)["devices"][0]
    finally:
        connection.close()


def _weir_bytes(control):
    root = weir_status(control)["cgroups"][0]
    return root["read_bytes"] + root["write_bytes"]
