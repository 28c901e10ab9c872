"""Requests that reach past the end, are too long, or make no sense: an error each, and the connection goes on."""

import errno
import sys

import nbd

from expect import anything_goes, extents, fails

MIB = 1 << 20
FOUR_GIB = (1 << 32) - 1

h = nbd.NBD()
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.connect_uri(sys.argv[1])
anything_goes(h)
size = h.get_size()
before = h.pread(size, 0)

past_the_end = [(size - 511, 512), (size, 1), (size + 4096, 512), ((1 << 63) - 1024, 512)]
for offset, length in past_the_end:
    fails(errno.EINVAL, h.pread, length, offset)
    fails(errno.ENOSPC, h.pwrite, b"x" * length, offset)
    fails(errno.ENOSPC, h.pwrite, b"x" * length, offset, nbd.CMD_FLAG_FUA)
    fails(errno.ENOSPC, h.zero, length, offset)
    fails(errno.EINVAL, h.trim, length, offset)
    fails(errno.EINVAL, h.cache, length, offset)
    fails(errno.EINVAL, extents, h, length, offset)
for call in [h.zero, h.trim, h.cache]:
    number = errno.ENOSPC if call == h.zero else errno.EINVAL
    fails(number, call, FOUR_GIB, 0)
# Offset and length whose sum does not fit into 64 bits.
fails(errno.EINVAL, h.pread, 4096, (1 << 64) - 1024)
fails(errno.ENOSPC, h.zero, FOUR_GIB, (1 << 64) - 1024)

# No length: the protocol leaves it open, and no answer could carry it.
fails(errno.EINVAL, h.pread, 0, 0)
fails(errno.EINVAL, h.pwrite, b"", 0)
fails(errno.EINVAL, h.zero, 0, 0)
fails(errno.EINVAL, h.trim, 0, 0)
fails(errno.EINVAL, h.cache, 0, 0)

# Flags that belong to other commands.
fails(errno.EINVAL, h.pwrite, b"x", 0, nbd.CMD_FLAG_DF)
fails(errno.EINVAL, h.trim, 512, 0, nbd.CMD_FLAG_FAST_ZERO)
fails(errno.EINVAL, h.pread, 512, 0, nbd.CMD_FLAG_NO_HOLE)
# One that means nothing but is allowed everywhere.
h.flush(nbd.CMD_FLAG_FUA)

# The last byte is in reach.
assert h.pread(1, size - 1) == before[-1:]
assert h.pread(size, 0) == before
h.shutdown()
