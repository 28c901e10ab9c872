"""Every command with every flag, at random places of random length, against a model of the disk in memory.

URI [IMAGE]: if the image is given, it must hold the same bytes after the last flush.
"""

import errno
import random
import sys

import nbd

from expect import anything_goes, extents

ROUNDS = 400

h = nbd.NBD()
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.connect_uri(sys.argv[1])
# DF with a plain read is one of the things that libnbd itself would refuse.
anything_goes(h)
dice = random.Random(20251)
size = h.get_size()
disk = bytearray(h.pread(size, 0))
# What was trimmed may read as anything until it is written again.
known = bytearray(b"\1") * size
counts = {}


def somewhere():
    """A range: small or large, on blocks or across them."""
    unit = dice.choice([1, 1, 512, 4096, 65536])
    length = unit * dice.randint(1, 40 if unit > 1 else 10000)
    offset = dice.randrange(size) // unit * unit
    return offset, min(length, size - offset)


def check(offset, length):
    found = h.pread(length, offset, dice.choice([0, nbd.CMD_FLAG_DF]))
    expected = disk[offset : offset + length]
    if found != expected:
        for at in range(length):
            if known[offset + at]:
                assert found[at] == expected[at], f"byte {offset + at}"


def write(offset, length):
    data = dice.randbytes(length)
    h.pwrite(data, offset, dice.choice([0, nbd.CMD_FLAG_FUA]))
    disk[offset : offset + length] = data
    known[offset : offset + length] = b"\1" * length


def zero(offset, length):
    flags = dice.choice([0, nbd.CMD_FLAG_FUA]) | dice.choice([0, nbd.CMD_FLAG_NO_HOLE])
    if dice.random() < 0.3:
        try:
            h.zero(length, offset, flags | nbd.CMD_FLAG_FAST_ZERO)
        except nbd.Error as error:
            assert error.errnum == errno.ENOTSUP, error
            counts["slow zero"] = counts.get("slow zero", 0) + 1
            return
    else:
        h.zero(length, offset, flags)
    disk[offset : offset + length] = bytes(length)
    known[offset : offset + length] = b"\1" * length


def trim(offset, length):
    h.trim(length, offset, dice.choice([0, nbd.CMD_FLAG_FUA]))
    known[offset : offset + length] = bytes(length)


def status(offset, length):
    answer = extents(h, length, offset)
    assert answer and all(part > 0 for part, _ in answer), answer
    (one,) = extents(h, length, offset, nbd.CMD_FLAG_REQ_ONE)
    assert 0 < one[0] <= length, one
    at = offset
    for part, flags in answer:
        if flags & nbd.STATE_ZERO:
            end = min(at + part, size)
            for place in range(at, end):
                assert not known[place] or disk[place] == 0, f"byte {place} is said to be zero"
        at += part


def cache(offset, length):
    h.cache(length, offset)


def flush(*_):
    h.flush()


for _ in range(ROUNDS):
    command = dice.choices([check, write, zero, trim, status, cache, flush], [6, 6, 3, 1, 1, 1, 1])[0]
    command(*somewhere())
    counts[command.__name__] = counts.get(command.__name__, 0) + 1
check(0, size)
h.flush()
if len(sys.argv) > 2:
    with open(sys.argv[2], "rb") as image:
        stored = image.read()
    assert len(stored) == size
    assert all(not k or a == b for k, a, b in zip(known, stored, disk)), "the image differs"
h.shutdown()
print(counts)
