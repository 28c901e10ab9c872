import unittest

from lib import causes, tracing

SQLITE, OTHER, JOURNAL = 10, 11, 90


def queue(at_us, pid, does, sector, sectors=8):
    return tracing.Event(at_us, pid, "x", "queue", does, sector, sectors)


def done(at_us, does, sector, sectors=8):
    return tracing.Event(at_us, 0, "x", "complete", does, sector, sectors)


def mark(at_us, pid, kind, number=0):
    return tracing.Event(at_us, pid, "x", kind, number=number)


# A process syncs: its data, then the journal's commit, which a second process joins; then it goes on.
EVENTS = [
    mark(100, SQLITE, "sync"),
    queue(110, SQLITE, "WS", 1000),
    queue(120, SQLITE, "WS", 2000),
    done(200, "WS", 1000),
    done(300, "WS", 2000),
    mark(312, OTHER, "sync"),
    # Some of a commit comes before the kernel says that it begins.
    queue(320, JOURNAL, "WSM", 5000, 16),
    mark(330, JOURNAL, "commit", 7),
    done(400, "WSM", 5000, 16),
    queue(410, JOURNAL, "FWFSM", 5016),
    done(450, "FF", 2**64 - 1, 0),
    done(470, "WSM", 5016),
    done(480, "FF", 2**64 - 1, 0),
    done(500, "WSM", 5016, 0),
    mark(505, JOURNAL, "committed", 7),
    mark(510, OTHER, "synced"),
    mark(512, SQLITE, "synced"),
    queue(600, OTHER, "WS", 4000),
    queue(620, SQLITE, "R", 3000),
]


class Recording(unittest.TestCase):
    def setUp(self):
        self.requests = causes.recording(EVENTS, {SQLITE: None, OTHER: None})

    def test_what_waited_for_what(self):
        said = [(one.pid, one.op, one.sector, one.after, one.delay_us) for one in self.requests]
        self.assertEqual(said, [
            (SQLITE, "W", 1000, (), 10),
            # Queued together: both at their times after the same.
            (SQLITE, "W", 2000, (), 20),
            # The commit begins for the one that asks for it first, when both its writes are done.
            (JOURNAL, "W", 5000, (0, 1), 20),
            # The commit's block goes with a flush before it and one after it.
            (JOURNAL, "F", 0, (2,), 10),
            (JOURNAL, "W", 5016, (3,), 0),
            (JOURNAL, "F", 0, (4,), 0),
            # Both wait for the end of the commit, and that has waited for the writes of the first.
            (OTHER, "W", 4000, (5,), 95),
            (SQLITE, "R", 3000, (5,), 115),
        ])
        self.assertTrue(all(one.sync for one in self.requests))
        self.assertEqual([one.metadata for one in self.requests], [False] * 2 + [True] * 4 + [False] * 2)

    def test_a_process_follows_another(self):
        events = [queue(10, SQLITE, "WS", 8), done(50, "WS", 8), queue(90, OTHER, "R", 16)]
        last = causes.recording(events, {SQLITE: None, OTHER: SQLITE})[-1]
        self.assertEqual((last.after, last.delay_us), ((0,), 40))

    def test_flushes_end_in_their_order(self):
        events = [queue(0, SQLITE, "FWS", 0, 0), queue(5, OTHER, "FWS", 0, 0), done(60, "FF", 2**64 - 1, 0),
                  done(61, "WS", 0, 0), done(90, "WS", 0, 0), queue(91, SQLITE, "R", 8), queue(92, OTHER, "R", 16)]
        said = [(one.op, one.after, one.delay_us) for one in causes.recording(events, {})[2:]]
        self.assertEqual(said, [("R", (0,), 30), ("R", (1,), 2)])

    def test_nobody_waits_for_what_was_written_behind(self):
        events = [queue(0, SQLITE, "R", 8), done(5, "R", 8), queue(40, JOURNAL, "W", 800), queue(70, SQLITE, "R", 16)]
        asynchronous, read = causes.recording(events, {})[1:]
        self.assertEqual((asynchronous.sync, asynchronous.after, asynchronous.delay_us), (False, (), 40))
        self.assertEqual((read.sync, read.after, read.delay_us), (True, (0,), 65))


class Parse(unittest.TestCase):
    def test_lines_of_the_kernel(self):
        lines = [
            "# tracer: nop",
            " jbd2/loop0-8-90 [001] .....  12.000310: jbd2_start_commit: dev 7,0 transaction 7 sync 1",
            "         sqlite3-10      [000] .....  12.000110: block_bio_queue: 7,0 WS 1000 + 8 [sqlite3]",
            "          <idle>-0       [000] ..s1.  12.000200: block_rq_complete: 7,0 WS () 1000 + 8 be,0,4 [0]",
        ]
        self.assertEqual(tracing.parse(lines), [
            tracing.Event(12000110, 10, "sqlite3", "queue", "WS", 1000, 8),
            tracing.Event(12000200, 0, "<idle>", "complete", "WS", 1000, 8, 4),
            tracing.Event(12000310, 90, "jbd2/loop0-8", "commit", number=7),
        ])

    def test_a_trace_with_holes_is_none(self):
        with self.assertRaises(RuntimeError):
            tracing.parse(["CPU:1 [LOST 42 EVENTS]"])


if __name__ == "__main__":
    unittest.main()
