"""What the scripts beside it share."""

import nbd


def fails(number, call, *arguments):
    """Calls, and expects an error with this errno."""
    try:
        call(*arguments)
    except nbd.Error as error:
        assert error.errnum == number, f"{error} instead of errno {number}"
    else:
        raise AssertionError(f"{call} {arguments} succeeds")


def anything_goes(handle):
    """Lets the handle send what libnbd would refuse by itself: the server is to be asked."""
    handle.set_strict_mode(0)


def extents(handle, length, offset, flags=0):
    """Pairs of length and flags, of base:allocation."""
    found = []

    def note(context, start, entries, error):
        assert (context, start, error.value) == (nbd.CONTEXT_BASE_ALLOCATION, offset, 0)
        found.extend(zip(entries[::2], entries[1::2]))

    handle.block_status(length, offset, note, flags)
    return found


def mapped(handle):
    """All extents of the export as (offset, length, flags), neighbours that are alike joined."""
    whole, offset, size = [], 0, handle.get_size()
    while offset < size:
        length = min(size - offset, (1 << 32) - 512)
        answer = extents(handle, length, offset)
        assert answer, "an answer tells of at least one extent"
        for length, flags in answer:
            assert length > 0
            if whole and whole[-1][2] == flags:
                whole[-1] = (whole[-1][0], whole[-1][1] + length, flags)
            else:
                whole.append((offset, length, flags))
            offset += length
    assert offset == size, "extents end where the export does"
    return whole
