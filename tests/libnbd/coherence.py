"""CAN_MULTI_CONN: what one connection wrote, all see; what one has flushed, all have."""

import random
import sys

import nbd

a, b, c = (nbd.NBD() for _ in range(3))
for h in (a, b, c):
    h.connect_uri(sys.argv[1])
    assert h.can_multi_conn()
dice = random.Random(3)
size = a.get_size()
for number in range(60):
    offset = dice.randrange(size - 20_000)
    data = dice.randbytes(dice.choice([1, 512, 4096, 20_000]))
    writer, flusher, reader = dice.sample((a, b, c), 3)
    if number % 3:
        writer.pwrite(data, offset)
        flusher.flush()
    else:
        writer.pwrite(data, offset, nbd.CMD_FLAG_FUA)
    assert reader.pread(len(data), offset) == data
    if len(sys.argv) > 2:
        with open(sys.argv[2], "rb") as image:
            image.seek(offset)
            assert image.read(len(data)) == data
    flusher.zero(len(data), offset, nbd.CMD_FLAG_FUA)
    assert reader.pread(len(data), offset) == bytes(len(data))
for h in (a, b, c):
    h.shutdown()
