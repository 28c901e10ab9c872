"""Clients from before GO: EXPORT_NAME, with and without the 124 bytes of zeroes after it."""

import sys

import nbd

for flags in [
    0,
    nbd.HANDSHAKE_FLAG_NO_ZEROES,
    nbd.HANDSHAKE_FLAG_FIXED_NEWSTYLE,
    nbd.HANDSHAKE_FLAG_FIXED_NEWSTYLE | nbd.HANDSHAKE_FLAG_NO_ZEROES,
]:
    h = nbd.NBD()
    h.set_handshake_flags(flags)
    h.connect_uri(sys.argv[1])
    expected = "newstyle-fixed" if flags & nbd.HANDSHAKE_FLAG_FIXED_NEWSTYLE else "newstyle"
    assert h.get_protocol() == expected, h.get_protocol()
    assert h.get_size() == int(sys.argv[2])
    data = bytes([flags + 1]) * 4096
    h.pwrite(data, 4096 * flags)
    h.flush()
    assert h.pread(4096, 4096 * flags) == data
    h.shutdown()
