import os
import pathlib
import tempfile
import unittest
from unittest import mock

from lib import quiet


class Place:
    """Begins nothing, and so many of these only."""

    before_each = before_server = None
    keeps_programs = False

    def __init__(self, most):
        self.begun, self._most = [], most

    def spawn(self, command, before=None):
        if len(self.begun) == self._most:
            raise OSError("no more processes")
        self.begun.append(command)
        return command


class QuietCpus(unittest.TestCase):
    def setUp(self):
        settings = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self._settings = {name: settings / name for name in ("_RESERVE", "_SESSIONS")}
        for name, path in self._settings.items():
            path.write_text("as it was", encoding="ascii")
            self.enterContext(mock.patch.object(quiet, name, path))
        self.enterContext(mock.patch.object(quiet, "_may", lambda take: True))
        self._ended = []
        self.enterContext(mock.patch.object(quiet, "end", self._ended.append))

    def _said(self):
        return [path.read_text(encoding="ascii") for path in self._settings.values()]

    def test_the_kernel_is_told_until_it_is_over(self):
        place = Place(len(os.sched_getaffinity(0)))
        with quiet.QuietCpus(place, True):
            self.assertEqual(self._said(), ["-1", "0"])
            self.assertTrue(place.keeps_programs)
        self.assertEqual(self._said(), ["as it was"] * 2)
        self.assertEqual(self._ended, place.begun)
        self.assertFalse(place.keeps_programs)

    def test_what_fails_half_way_is_undone(self):
        place = Place(len(os.sched_getaffinity(0)) - 1)
        with self.assertRaises(OSError), quiet.QuietCpus(place, True):
            self.fail("one of them was not begun")
        self.assertEqual(self._said(), ["as it was"] * 2)
        self.assertEqual(self._ended, place.begun)
        self.assertFalse(place.keeps_programs)


if __name__ == "__main__":
    unittest.main()
