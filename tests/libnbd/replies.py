"""Structured and simple replies say the same."""

import errno
import sys

import nbd

from expect import anything_goes, fails


def connect(structured):
    h = nbd.NBD()
    h.set_request_structured_replies(structured)
    if structured:
        h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    h.connect_uri(sys.argv[1])
    assert h.get_structured_replies_negotiated() == structured
    assert h.can_df() == structured
    assert h.can_meta_context(nbd.CONTEXT_BASE_ALLOCATION) == structured
    return h


structured, simple = connect(True), connect(False)
size = simple.get_size()
for handle, number in [(structured, 1), (simple, 2)]:
    other = simple if handle is structured else structured
    data = bytes([number]) * 100_000
    handle.pwrite(data, 777)
    assert handle.pread(100_000, 777) == other.pread(100_000, 777) == data
    handle.zero(5000, 800)
    assert handle.pread(5002, 799) == other.pread(5002, 799) == bytes([number]) + bytes(5000) + bytes([number])
    anything_goes(handle)
    fails(errno.EINVAL, handle.pread, 1, size)
    fails(errno.ENOSPC, handle.pwrite, b"x", size)
    handle.flush()

# Chunks of a structured reply cover what was asked exactly once; with DF it is one.
for flags in [0, nbd.CMD_FLAG_DF]:
    chunks = []
    length = 200_000
    structured.pread_structured(
        length, 100, lambda data, offset, kind, error: chunks.append((offset, len(data), kind)), flags
    )
    at = 100
    for offset, covered, kind in sorted(chunks):
        assert offset == at, chunks
        at += covered
    assert at == 100 + length, chunks
    assert not flags or [kind for _, _, kind in chunks] == [nbd.READ_DATA], chunks

# "Too long" has a number of its own for structured replies only.
fails(errno.EOVERFLOW, structured.pread, (32 << 20) + 1, 0)
fails(errno.EINVAL, simple.pread, (32 << 20) + 1, 0)
for handle in [structured, simple]:
    assert handle.pread(1, 0) == b"\0"
    handle.shutdown()
