import pathlib
import tempfile
import unittest

from lib import startup

_TRACE = """\
xterm-31657 \t   0     8   113314048  Rand    -427336      0        RM   4.666589 START
Xorg-925  .015820     8   113248520  Rand     -65536      0        RA   4.682409   C
xterm-31657  .000066     8   113248528   Seq          0      8        R   4.682475   C
jbd2/sdb1-8-268  .000066     8   113248528   Seq          0      8        WS   4.682475   C
"""


class Startup(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.trace = self.directory / "xterm.trace"
        self.trace.write_text(_TRACE, encoding="utf-8")

    def test_processes_that_read(self):
        processes = startup.by_process(self.trace)
        self.assertEqual({name: len(lines) for name, lines in processes.items()}, {"xterm-31657": 2, "Xorg-925": 1})

    def test_nothing_is_lost_in_splitting(self):
        parts = startup.split(self.trace, self.directory)
        self.assertEqual(len(parts), 2)
        self.assertEqual(startup.requests(parts), 3)
        self.assertTrue(parts[0].read_text(encoding="utf-8").startswith("xterm-31657 \t"))

    def test_traces_by_name(self):
        self.assertEqual(startup.find(self.directory), {"xterm": self.trace})
        self.assertEqual(startup.find(self.directory / "elsewhere"), {})


if __name__ == "__main__":
    unittest.main()
