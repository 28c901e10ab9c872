"""Requests that do not keep to the block sizes that the server has told, 4096 to 256 KiB, at the export of a URI."""

import errno
import sys

import nbd

from expect import anything_goes, fails

h = nbd.NBD()
h.connect_uri(sys.argv[1])
sizes = [h.get_block_size(size) for size in (nbd.SIZE_MINIMUM, nbd.SIZE_PREFERRED, nbd.SIZE_MAXIMUM)]
assert sizes == [4096, 4096, 256 << 10], sizes
h.pwrite(b"x" * 4096, 4096)
anything_goes(h)
for offset, length in [(512, 4096), (4096, 512), (1, 1), (0, 4097)]:
    fails(errno.EINVAL, h.pread, length, offset)
    fails(errno.EINVAL, h.pwrite, b"y" * length, offset)
    fails(errno.EINVAL, h.trim, length, offset)
    fails(errno.EINVAL, h.zero, length, offset)
fails(errno.EINVAL, h.pwrite, b"y" * (512 << 10), 0)
assert h.pread(8192, 0) == bytes(4096) + b"x" * 4096
h.shutdown()
