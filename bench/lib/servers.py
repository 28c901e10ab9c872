"""The servers that are compared, each started the way its users start it."""

import json
import os
import re
import select
import shlex
import shutil
import stat
import subprocess

from lib.usage import cpu_seconds
from lib.workplace import RESULTS, end, wait_for


class Absent(Exception):
    """A program is not installed; the benchmark names it and goes on."""


class Server:
    """A running NBD server. `uri(n)` is where client number n connects."""

    def __init__(self, place, command, what, uris, socket=None, ready_line=False):
        self._uris = uris
        output = subprocess.PIPE if ready_line else subprocess.DEVNULL
        self._log = open(place.fresh("server", ".log"), "w+", encoding="utf-8")
        self.process = place.spawn(command, before=place.before_server, stdout=output, stderr=self._log, text=True)
        try:
            if ready_line:
                self._uris = [_ready(self.process, what)]
            else:
                wait_for(what, lambda: _is_socket(socket), self.process)
        except RuntimeError as error:
            self.stop()
            self._log.seek(0)
            raise RuntimeError(f"{error}: {self._log.read().strip()[-600:]}") from None

    def uri(self, client=0):
        return self._uris[client % len(self._uris)]

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def stop(self):
        end(self.process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self._log.close()


def weir(place, image, options, limits, limiter="pace", direct="auto"):
    """`weir serve`, as the comparison's `options` say. `limits`, `limiter` and `direct` are what its flags take."""
    return _weir(place, image, options, "--max", limits, "--limiter", limiter, "--direct", direct)


def weir_emulated(place, disk, options, limits, depth):
    """`weir serve` with an emulated disk, in real time; `limits` may be empty."""
    limited = ["--max", limits] if limits else []
    return _weir(place, f"emulated:{disk}", options, "--depth", depth, *limited)


def weir_memory(place, size, options, scheduler):
    """`weir serve` with `size` bytes of memory as the disk, no limits, and `scheduler` to choose what is next."""
    return _weir(place, f"memory:{size}", options, "--scheduler", scheduler)


def weir_recording(place, size, options):
    """`weir serve` as `weir_memory` without a scheduler of its own, which records."""
    socket, directory = place.fresh_socket(), place.fresh("recording")
    text = f'[server]\nsocket = "{socket}"\ncontrol = "{place.fresh_socket()}"\n'
    text += _table("record", {"directory": str(directory), "size": "2G"})
    text += _table("device.disk", {"path": f"memory:{size}", "scheduler": "none"})
    text += _table('cgroup."/main"', {})
    text += _table("export.disk", {"device": "disk", "cgroup": "/main"})
    path = place.fresh("weir", ".toml")
    path.write_text(text, encoding="utf-8")
    command = [options.weir or weir_program(), "serve", path, *shlex.split(options.weir_args)]
    return Server(place, command, "weir", [_uri(socket, "disk")], socket=socket)


def weir_shared(place, disk, options, scheduler, depth, weights):
    """`weir serve` with an emulated disk that `scheduler` shares, and an export for each cgroup of `weights`.

    The server's client number n gets the n-th of these, or, if there are none, the only one.
    """
    device = {"path": f"emulated:{disk}", "scheduler": scheduler, "depth": depth}
    cgroups = {name: {"io.weight": weight} for name, weight in (weights or {"main": 100}).items()}
    return weir_tenants(place, options, device, cgroups, place.fresh_socket())


def weir_tenants(place, options, device, cgroups, control):
    """`weir serve` with the device `disk` and an export for each of `cgroups`, whose settings are dictionaries as the
    configuration has them; a setting that is a dictionary is a table. The server's client number n gets the n-th cgroup.
    """
    socket = place.fresh_socket()
    text = f'[server]\nsocket = "{socket}"\ncontrol = "{control}"\nmax_connections = 4096\nmax_connections_per_client = 4096\n'
    text += _table("device.disk", device)
    for name, settings in cgroups.items():
        text += _table(f'cgroup."/{name}"', settings)
        text += _table(f"export.{name}", {"device": "disk", "cgroup": f"/{name}"})
    path = place.fresh("weir", ".toml")
    path.write_text(text, encoding="utf-8")
    command = [options.weir or weir_program(), "serve", path, *shlex.split(options.weir_args)]
    return Server(place, command, "weir", [_uri(socket, name) for name in cgroups], socket=socket)


def weir_tls(place, image, options, certificates):
    """`weir serve` of one image on a Unix socket, to clients that start TLS and show a certificate of `certificates`."""
    socket, control = place.fresh_socket(), place.fresh_socket()
    text = f'[server]\nsocket = "{socket}"\ncontrol = "{control}"\ntls = "required"\n'
    files = {name: str(certificates / f"{path}.pem") for name, path in _TLS_FILES.items()}
    text += _table("tls", files)
    text += _table("device.disk", {"path": str(image), "direct": "off"})
    text += _table('cgroup."/main"', {"io.max": "disk riops=10000000"})
    text += _table("export.disk", {"device": "disk", "cgroup": "/main"})
    path = place.fresh("weir", ".toml")
    path.write_text(text, encoding="utf-8")
    command = [options.weir or weir_program(), "serve", path, *shlex.split(options.weir_args)]
    return Server(place, command, "weir", [_tls_uri(socket, "disk")], socket=socket)


_TLS_FILES = {"certificate": "server-cert", "key": "server-key", "client_ca": "ca-cert"}


def _table(name, settings):
    """A table of TOML. JSON's strings, numbers, truth values and lists are TOML's as well."""
    plain = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    text = f"[{name}]\n" + "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in plain.items())
    tables = [(key, value) for key, value in settings.items() if isinstance(value, dict)]
    return text + "".join(_table(f"{name}.{key}", value) for key, value in tables)


def _weir(place, what, options, *flags):
    command = [options.weir or weir_program(), "serve", what, *flags]
    command += ["--socket", place.fresh_socket(), "--control", place.fresh_socket()]
    return Server(place, [*command, *shlex.split(options.weir_args)], "weir", None, ready_line=True)


def weir_program():
    """The command that `make build` makes."""
    path = RESULTS.parent / "release" / "weir"
    if not path.exists():
        raise Absent(f"{path} is not built (make build)")
    return path


def nbdkit(place, plugin, *arguments, filters=()):
    """nbdkit in the foreground with one plug-in: `nbdkit(place, "file", image)`."""
    socket = place.fresh_socket()
    command = [installed("nbdkit"), "--foreground", "--exit-with-parent", "--unix", socket]
    command += [f"--filter={name}" for name in filters]
    return Server(place, [*command, plugin, *arguments], "nbdkit", [_uri(socket)], socket=socket)


def nbdkit_tls(place, certificates, plugin, *arguments):
    """nbdkit with one plug-in, to clients that start TLS and show a certificate of `certificates`."""
    socket = place.fresh_socket()
    command = [installed("nbdkit"), "--foreground", "--exit-with-parent", "--unix", socket]
    command += ["--tls=require", f"--tls-certificates={certificates}", "--tls-verify-peer", plugin, *arguments]
    return Server(place, command, "nbdkit", [_tls_uri(socket)], socket=socket)


def qemu(place, image, limits=None, exports=1, aio="threads"):
    """qemu-storage-daemon. `limits` are a throttle group's ({"iops-read": 100}); all exports share the group."""
    socket = place.fresh_socket()
    file = {"driver": "file", "node-name": "file", "filename": str(image), "aio": aio}
    command = [installed("qemu-storage-daemon")]
    command += ["--blockdev", json.dumps({"driver": "raw", "node-name": "raw", "file": file})]
    if limits:
        group = {"qom-type": "throttle-group", "id": "group", "limits": limits}
        command += ["--object", json.dumps(group)]
    address = {"type": "unix", "path": str(socket)}
    command += ["--nbd-server", json.dumps({"addr": address, "max-connections": 0})]
    names = [f"disk{number}" for number in range(exports)]
    for name in names:
        node = "raw"
        if limits:
            node = f"throttle-{name}"
            above = {"driver": "throttle", "node-name": node, "throttle-group": "group", "file": "raw"}
            command += ["--blockdev", json.dumps(above)]
        export = {"type": "nbd", "id": name, "node-name": node, "name": name}
        command += ["--export", json.dumps(export)]
    return Server(place, command, "qemu-storage-daemon", [_uri(socket, name) for name in names], socket=socket)


def installed(program):
    """The program's path."""
    path = shutil.which(program)
    if not path:
        raise Absent(f"{program} is not installed (tools/packages bench)")
    return path


def _uri(socket, export=""):
    return f"nbd+unix:///{export}?socket={socket}"


def _tls_uri(socket, export=""):
    return f"nbds+unix:///{export}?socket={socket}"


def _is_socket(path):
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def _ready(process, what):
    # Nothing but the URI comes on its standard output, and only once clients may connect.
    if not select.select([process.stdout], [], [], 10)[0]:
        raise RuntimeError(f"{what} has not printed its NBD URI after 10 s")
    line = process.stdout.readline().strip()
    if not re.fullmatch(r"nbd(s?)(\+unix)?://\S+", line):
        raise RuntimeError(f"{what} printed {line!r} where its NBD URI was expected")
    return line
