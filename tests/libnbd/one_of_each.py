"""URI ROUNDS: in each round one of each command, all of them on a range of 4 KiB that is a hole."""

import sys

import nbd

h = nbd.NBD()
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.connect_uri(sys.argv[1])
for number in range(int(sys.argv[2])):
    offset = number * 8192
    h.pread(4096, offset)
    h.block_status(4096, offset, lambda *_: 0)
    h.cache(4096, offset)
    h.zero(4096, offset)
    h.trim(4096, offset)
    h.pwrite(b"x" * 4096, offset + 4096)
    h.flush()
h.shutdown()
