"""What stays in memory, as the kernel counts it, and what cannot."""

import os
import pathlib
import re
import tempfile
import unittest
from unittest import mock

from lib import resident
from lib.resident import Resident


def _locked_kib():
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"^VmLck:\s+(\d+) kB$", status, re.MULTILINE)[1])


class ResidentTest(unittest.TestCase):
    """On files of a few pages: less than any usual limit on locked memory."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name, "four-pages")
        self.path.write_bytes(os.urandom(4 * 4096))

    def test_a_file_is_locked_once_and_until_it_is_left(self):
        before = _locked_kib()
        with Resident() as files:
            self.assertTrue(files.keep(self.path))
            self.assertTrue(files.keep(self.path))
            self.assertEqual(_locked_kib() - before, 16)
        self.assertEqual(_locked_kib(), before)

    def test_a_program_comes_with_what_it_is_linked_with(self):
        kept = []
        files = Resident()
        with mock.patch.object(files, "keep", side_effect=lambda path: kept.append(path) or True):
            self.assertTrue(files.keep_program("sh"))
        self.assertRegex(kept[0], "/sh$")
        self.assertTrue(any("libc" in path for path in kept[1:]), kept)

    def test_what_is_missing_or_refused_is_said_and_fails_nothing(self):
        with Resident() as files:
            self.assertFalse(files.keep("/no/such/file"))
            self.assertFalse(files.keep_program("no-such-program"))
            with mock.patch.object(resident._libc, "mlock", return_value=-1):
                self.assertFalse(files.keep(self.path))


if __name__ == "__main__":
    unittest.main()
