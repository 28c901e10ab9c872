"""A read-only export: what would change it is refused with EPERM, the rest works, and nothing has changed."""

import errno
import sys

import nbd

from expect import anything_goes, fails

h = nbd.NBD()
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.connect_uri(sys.argv[1])
assert h.is_read_only()
assert not h.can_trim() and not h.can_zero() and not h.can_fast_zero()
anything_goes(h)
before = h.pread(65536, 0)
for call, arguments in [
    (h.pwrite, (b"x" * 512, 0)),
    (h.pwrite, (b"x" * 512, 0, nbd.CMD_FLAG_FUA)),
    (h.pwrite, (b"x" * (2 << 20), 0)),
    (h.zero, (4096, 0)),
    (h.zero, (4096, 0, nbd.CMD_FLAG_FAST_ZERO)),
    (h.trim, (4096, 0)),
]:
    fails(errno.EPERM, call, *arguments)
    assert h.pread(65536, 0) == before
h.flush()
h.cache(4096, 0)
h.block_status(65536, 0, lambda *_: 0)
h.shutdown()
