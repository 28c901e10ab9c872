"""Option haggling as a client does it that looks before it goes."""

import errno
import sys

import nbd

from expect import fails

h = nbd.NBD()
h.set_opt_mode(True)
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.add_meta_context("weir:no-such-context")
h.connect_uri(sys.argv[1])
names = []
assert h.opt_list(lambda name, description: names.append((name, description))) == len(names)
assert names == [("one", "the first"), ("two", "")], names
for name, size in [("one", 1 << 20), ("two", 2 << 20)]:
    h.set_export_name(name)
    h.opt_info()
    assert h.get_size() == size
    contexts = []
    h.opt_list_meta_context(contexts.append)
    assert contexts == [nbd.CONTEXT_BASE_ALLOCATION], contexts
h.set_export_name("three")
fails(errno.ENOENT, h.opt_info)
fails(errno.ENOENT, h.opt_go)
h.set_export_name("one")
h.opt_go()
assert h.get_size() == 1 << 20
assert h.can_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
assert not h.can_meta_context("weir:no-such-context")
h.shutdown()

h = nbd.NBD()
h.set_opt_mode(True)
h.connect_uri(sys.argv[1])
h.opt_abort()
