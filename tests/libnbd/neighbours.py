"""Parts of one block written at the same time over several connections: all of them stay."""

import random
import sys

import nbd

CONNECTIONS, ROUNDS, PART, BLOCK = 4, 30, 256, 4096

handles = [nbd.NBD() for _ in range(CONNECTIONS)]
for h in handles:
    h.connect_uri(sys.argv[1])
dice = random.Random(7)
for number in range(ROUNDS):
    base = dice.randrange(handles[0].get_size() // BLOCK - 1) * BLOCK
    data = dice.randbytes(2 * BLOCK)
    waiting = []
    for at in range(0, 2 * BLOCK, PART):
        h = handles[at // PART % CONNECTIONS]
        part = nbd.Buffer.from_bytearray(bytearray(data[at : at + PART]))
        flags = nbd.CMD_FLAG_FUA if dice.random() < 0.1 else 0
        waiting.append((h, h.aio_pwrite(part, base + at, flags=flags)))
    for h, cookie in waiting:
        while not h.aio_command_completed(cookie):
            assert h.poll(60_000) > 0, "no answer"
    found = handles[number % CONNECTIONS].pread(2 * BLOCK, base)
    assert found == data, f"round {number}: lost {[at for at in range(2 * BLOCK) if found[at] != data[at]]}"
for h in handles:
    h.shutdown()
