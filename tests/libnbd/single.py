"""Servers started on a socket pair by libnbd's connect_command: SIZE, then the command."""

import sys

import nbd

size, command = int(sys.argv[1]), sys.argv[2:]

h = nbd.NBD()
h.connect_command(command)
assert h.get_size() == size, h.get_size()
h.pwrite(b"x" * 512, 1024)
assert h.pread(1024, 1024) == b"x" * 512 + bytes(512)
h.shutdown()

# One that only looks what there is, and does not choose an export.
h = nbd.NBD()
h.set_opt_mode(True)
h.connect_command(command)
exports = []
h.opt_list(lambda name, description: exports.append(name))
assert exports == [""], exports
h.opt_abort()

# One that goes without a word.
h = nbd.NBD()
h.connect_command(command)
del h
