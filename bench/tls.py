#!/usr/bin/env python3
"""What TLS costs a server: CPU seconds and throughput of reads over NBD from the page cache, encrypted and not."""

import ctypes
import os
import subprocess
import sys

from lib import fio, servers
from lib.comparison import Comparison, Metric, arguments
from lib.usage import Disturbance

METRICS = [
    Metric("cpu_seconds_per_gib", "CPU s per GiB", "{:.2f}"),
    Metric("mib_per_second", "MiB/s", "{:.0f}"),
    Metric("iops", "IOPS", "{:.0f}"),
    Metric("server_cpu_percent", "server CPU %", "{:.0f}"),
]

_CLONE_NEWUSER = 0x10000000
_libc = ctypes.CDLL(None, use_errno=True)

CASES = {
    "1 MiB sequential reads, 2 connections, queue depth 8": {"rw": "read", "bs": "1m", "iodepth": 8},
    "4 KiB random reads, 2 connections, queue depth 32": {"rw": "randread", "bs": "4k", "iodepth": 32},
}


def certificates(place):
    """A directory with a CA, a server's certificate and a client's, as GnuTLS's programs name them.

    fio lets libnbd read no file that a URI names, so they are where libnbd looks for them: at home, which is a new one. Of
    root it does not look there, so fio runs in a user namespace, where it is not root.
    """
    home = place.fresh("home")
    directory = home / ".pki" / "libnbd"
    directory.mkdir(parents=True)
    os.environ["HOME"] = str(home)

    def openssl(*words):
        subprocess.run([servers.installed("openssl"), *words], cwd=directory, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=a CA", "-keyout", "ca-key.pem", "-out", "ca-cert.pem")
    for name in ("server", "client"):
        names = f"subjectAltName=DNS:{'localhost' if name == 'server' else 'client.example'}"
        openssl("req", *key, "-subj", f"/CN={name}", "-addext", names, "-keyout", f"{name}-key.pem", "-out", "csr")
        openssl(
            "x509", "-req", "-in", "csr", "-CA", "ca-cert.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-days", "2",
            "-copy_extensions", "copy", "-out", f"{name}-cert.pem",
        )
    return directory


def leave_root():
    if os.geteuid() == 0 and _libc.unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "no user namespace for fio")


def main():
    options = arguments(
        description=__doc__ + "\n\nTwo fio jobs (two connections) over a Unix socket. Counted is the server process only: user and"
        "\nsystem time of all its threads, from the first connection to the last reply. Clients are fio's, with GnuTLS, on"
        "\nthe same machine, so the throughput is that of both sides together.",
        examples=[
            "bench/tls.py                             all systems, three rounds of ten seconds",
            "bench/tls.py --quick --only weir-tls     does it work?",
        ],
        seconds=10,
        quick_seconds=2,
        rounds=3,
    )
    systems = {
        "weir-tls": lambda place, image: servers.weir_tls(place, image, options, certificates(place)),
        "weir": lambda place, image: servers.weir(place, image, options, "riops=10000000", direct="off"),
        "nbdkit-tls": lambda place, image: servers.nbdkit_tls(place, certificates(place), "file", image),
        "nbdkit": lambda place, image: servers.nbdkit(place, "file", image),
    }

    def measure(place, case, start):
        image = place.image(1024)
        with start(place, image) as server:
            disturbance, before = Disturbance(), server.cpu_seconds()
            [job] = fio.run(
                place, {"tls": {}}, before=leave_root, ioengine="nbd", uri=server.uri(), numjobs=2, size="512m", norandommap=True,
                group_reporting=True, time_based=True, runtime=f"{options.seconds:g}", latencies=False, **case,
            )
            used = server.cpu_seconds() - before
            bytes_read = job.ios * (1 << 20 if case["bs"] == "1m" else 4096)
            return {
                "cpu_seconds_per_gib": used * (1 << 30) / bytes_read,
                "mib_per_second": bytes_read / (1 << 20) / options.seconds,
                "iops": job.iops,
                "server_cpu_percent": 100 * used / options.seconds,
                "other_cpu_percent": disturbance.percent(used),
            }

    note = "TLS is what GnuTLS and rustls agree on: version 1.3 with AES-256-GCM, unless one of them is configured otherwise."
    comparison = Comparison("tls", options, METRICS, "cpu_seconds_per_gib", note)
    return comparison.run(systems, CASES, measure)


if __name__ == "__main__":
    sys.exit(main())
