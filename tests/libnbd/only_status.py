"""URI COUNT: nothing but questions for data and holes."""

import sys

import nbd

h = nbd.NBD()
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.connect_uri(sys.argv[1])
for _ in range(int(sys.argv[2])):
    h.block_status(4096, 0, lambda *_: 0)
h.shutdown()
