import dataclasses
import unittest

from lib import way


@dataclasses.dataclass
class Job:
    reads_us: list
    all_iops: float


DISKS = way.Disks("timed", "timeless")


class Told(unittest.TestCase):
    """A system whose way takes 40 us at depth 1, and lets through a read in 9 us."""

    def run_of(self, deep_us):
        # One at a time: 140 us a read, a tenth of them 190, and 5 us of fio's own between two.
        alone = Job([140.0] * 900 + [190.0] * 100, 1e6 / (145 + 5))
        with_latency = {1: alone, 8: Job([], 1e6 / deep_us), 32: Job([], 1e6 / deep_us)}
        jobs = {("timed", depth): job for depth, job in with_latency.items()}
        jobs["timeless", 32] = Job([], 1e6 / 9)
        return lambda place, system, disk, depth: jobs[disk, depth]

    def told(self, depth, deep_us=17, lab_us=None):
        asked = []

        def in_lab(place, disk, depth, way_of_one):
            asked.append((disk, depth, way_of_one.times_ns[0], way_of_one.each_ns))
            return 1e6 / lab_us

        ways = way.Ways(self.run_of(deep_us), in_lab)
        with ways.around(None, "a", "read", depth, DISKS):
            pass
        told = ways.of(None, "a", "read")
        self.assertEqual(asked, [("timed", depth, 45000, 9000)] if lab_us else [])
        return told

    def test_what_is_more_than_the_disk_is_the_way(self):
        told = self.told(depth=4)
        self.assertEqual(len(told.times_ns), way.TIMES)
        self.assertEqual([told.times_ns[0], told.times_ns[-1]], [45000, 95000])
        self.assertEqual(told.each_ns, 9000)

    def test_depth_8_is_what_the_lab_says_of_it_and_the_difference(self):
        told = self.told(depth=8, deep_us=17, lab_us=18)
        # A microsecond less for each of eight under way.
        self.assertEqual((told.times_ns[0], told.each_ns), (45000 - 8 * 1000, 9000))

    def test_where_the_way_is_full_it_lets_fewer_through(self):
        told = self.told(depth=32, deep_us=10.5, lab_us=9.1)
        self.assertEqual((told.times_ns[0], told.each_ns), (45000, 10500))

    def test_before_and_after_count_alike(self):
        jobs = iter([Job([130.0] * 10, 1e6 / 130), Job([], 100), Job([150.0] * 10, 1e6 / 150), Job([], 100)])
        ways = way.Ways(lambda *_: next(jobs), None)
        with ways.around(None, "a", "read", 1, DISKS):
            pass
        times = ways.of(None, "a", "read").times_ns
        self.assertEqual(times, [30000] * 10 + [50000] * 10)

    def test_what_was_not_measured_is_none(self):
        self.assertIsNone(way.Ways(None, None).of(None, "a", "read"))

    def test_a_job_that_fails_leaves_no_way(self):
        ways = way.Ways(self.run_of(17), None)
        with self.assertRaises(RuntimeError), ways.around(None, "a", "read", 4, DISKS):
            raise RuntimeError("fio failed")
        self.assertIsNone(ways.of(None, "a", "read"))


class Means(unittest.TestCase):
    def test_parts_are_equal(self):
        self.assertEqual(way.means([1, 2, 3, 4], 2), [1.5, 3.5])

    def test_few_are_themselves(self):
        self.assertEqual(way.means([1, 2], 5), [1, 2])


if __name__ == "__main__":
    unittest.main()
