"""An NBD client that notes when each read is completed. Run as a process of its own, for its own interpreter:

    python3 -m lib.client URI SIZE DEPTH WARM_SECONDS SECONDS

It keeps DEPTH reads of SIZE bytes under way and prints the completion times in ns, one a line: those after the
first WARM_SECONDS, until one comes that is SECONDS or more later than the first of them.
"""

import sys
import time

try:
    import nbd
except ImportError:
    # Debian's modules are for Debian's Python; another one of the same version can use them too.
    sys.path.append("/usr/lib/python3/dist-packages")
    import nbd


def completion_times(uri, size, depth, warm_seconds, seconds):
    """Completion times of reads, in ns of the monotonic clock. The offset is always 0: the page cache has it."""
    handle = nbd.NBD()
    handle.connect_uri(uri)
    buffers = [nbd.Buffer(size) for _ in range(depth)]
    free, times = list(range(depth)), []
    started = time.monotonic_ns()
    open_at, end_at = started + int(warm_seconds * 1e9), None

    def done(slot):
        def completed(error):
            nonlocal end_at
            now = time.monotonic_ns()
            if error.value:
                raise OSError(error.value, "a read failed")
            free.append(slot)
            if now >= open_at:
                times.append(now)
                end_at = end_at or now + int(seconds * 1e9)
            # 1: libnbd need not keep the command for us to collect.
            return 1
        return completed

    callbacks = [done(slot) for slot in range(depth)]
    while not times or times[-1] < end_at:
        while free:
            slot = free.pop()
            handle.aio_pread(buffers[slot], 0, callbacks[slot])
        handle.poll(-1)
    # Nobody waits for the reads still under way: closing the connection drops them.
    del handle
    return times


if __name__ == "__main__":
    uri_, size_, depth_, warm_, seconds_ = sys.argv[1:]
    for each in completion_times(uri_, int(size_), int(depth_), float(warm_), float(seconds_)):
        print(each)
