import unittest

from lib.fio import Completion
from lib.schedulers import _counted


def read(at_seconds, latency_us, size=4096):
    return Completion(at_seconds, latency_us, True, size)


class Window(unittest.TestCase):
    def test_what_ends_inside_counts(self):
        counted = _counted([read(9.9, 10), read(10.0, 10), read(11.9, 10), read(12.0, 10)], 10, 12)
        self.assertEqual((counted.ios, counted.bytes, counted.bytes_per_second()), (2, 8192, 4096))

    def test_latencies_are_of_what_was_under_way(self):
        # One began before and one ends after; the first had ended before, the last began after.
        completions = [read(9.9, 100), read(10.5, 1_000_000), read(14, 3_000_000), read(14, 1_000_000)]
        counted = _counted(completions, 10, 12)
        self.assertEqual((counted.ios, counted.latency_us_p50, counted.latency_us_p99), (1, 1_000_000, 3_000_000))

    def test_nothing(self):
        counted = _counted([], 10, 12)
        self.assertEqual((counted.ios, counted.latency_us_p99), (0, None))


if __name__ == "__main__":
    unittest.main()
