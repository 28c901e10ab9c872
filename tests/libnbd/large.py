"""Requests as long as they may be, and one byte longer."""

import errno
import random
import sys

import nbd

from expect import anything_goes, fails

LARGEST = 32 << 20

h = nbd.NBD()
h.connect_uri(sys.argv[1])
assert h.get_block_size(nbd.SIZE_MAXIMUM) == LARGEST
anything_goes(h)
data = random.Random(1).randbytes(LARGEST)
h.pwrite(data, 4096)
assert h.pread(LARGEST, 4096) == data
assert h.pread(LARGEST, 4096, nbd.CMD_FLAG_DF) == data
# Across blocks as well.
h.pwrite(data, 3, nbd.CMD_FLAG_FUA)
assert h.pread(LARGEST, 3) == data

fails(errno.EOVERFLOW, h.pread, LARGEST + 1, 0)
fails(errno.EINVAL, h.pwrite, data + b"x", 0)
assert h.pread(LARGEST, 3) == data

# What carries no data may be longer.
h.zero(LARGEST + 1, 3)
assert h.pread(LARGEST, 3) == bytes(LARGEST)
assert h.pread(1, LARGEST + 3) == b"\0"
h.trim(h.get_size(), 0)
h.cache(h.get_size(), 0)
h.flush()
h.shutdown()
