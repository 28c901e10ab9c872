"""Reads of one block each, all sent at once: URI COUNT."""

import sys

import nbd

h = nbd.NBD()
h.connect_uri(sys.argv[1])
waiting = [h.aio_pread(nbd.Buffer(512), number * 512) for number in range(int(sys.argv[2]))]
for cookie in waiting:
    while not h.aio_command_completed(cookie):
        assert h.poll(60_000) > 0, "no answer"
h.shutdown()
