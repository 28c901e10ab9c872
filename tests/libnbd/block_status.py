"""Where data and holes are. URI SIZE OFFSET,LENGTH...: the data; the rest is holes."""

import sys

import nbd

from expect import extents, mapped

h = nbd.NBD()
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.connect_uri(sys.argv[1])
size = int(sys.argv[2])
data = [tuple(map(int, argument.split(","))) for argument in sys.argv[3:]]
HOLE = nbd.STATE_HOLE | nbd.STATE_ZERO

expected, at = [], 0
for offset, length in data + [(size, 0)]:
    if offset > at:
        expected.append((at, offset - at, HOLE))
    if length:
        expected.append((offset, length, 0))
    at = offset + length
assert mapped(h) == expected, (mapped(h), expected)

for offset, length, flags in expected:
    # One extent, however much is asked, no longer than asked; and never empty, however little is.
    assert extents(h, length, offset, nbd.CMD_FLAG_REQ_ONE) == [(length, flags)]
    assert extents(h, 1, offset, nbd.CMD_FLAG_REQ_ONE) == [(1, flags)]
    middle = length // 2
    assert extents(h, size - offset - middle, offset + middle, nbd.CMD_FLAG_REQ_ONE) == [(length - middle, flags)]

if data:
    # Data that is zeroed becomes a hole, a hole that is written to does not stay one.
    offset, length = data[0]
    h.zero(length, offset)
    assert extents(h, length, offset, nbd.CMD_FLAG_REQ_ONE) == [(length, HOLE)]
    h.pwrite(b"x" * length, offset)
    assert extents(h, length, offset, nbd.CMD_FLAG_REQ_ONE) == [(length, 0)]
h.shutdown()
