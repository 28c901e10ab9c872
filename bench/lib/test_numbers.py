import unittest

from lib.numbers import jain, median, percentile, rate_between_batches, rate_over


class Numbers(unittest.TestCase):
    def test_median(self):
        self.assertEqual(median([3, 1, 2]), 2)
        self.assertEqual(median([4, 1, 2, 3]), 2.5)

    def test_percentile_is_the_nearest_rank(self):
        values = list(range(1, 1001))
        self.assertEqual([percentile(values, p) for p in (0, 50, 99, 99.9, 100)], [1, 500, 990, 999, 1000])
        self.assertEqual(percentile([7], 99.9), 7)

    def test_jain(self):
        self.assertEqual(jain([5, 5, 5]), 1)
        self.assertEqual(jain([9, 0, 0]), 1 / 3)
        self.assertEqual(jain([0, 0]), 0)

    def test_rate_over(self):
        self.assertEqual(rate_over(8, 4, 2, 10), 6)
        self.assertEqual(rate_over(4, 4, 2, 10), 2)

    def test_rate_of_even_completions(self):
        times = [i * 10_000_000 for i in range(11)]
        self.assertEqual(rate_between_batches(times, [1] * 11), 100)

    def test_rate_of_batches_counts_whole_ones_only(self):
        # Ten at a time, every 100 ms; the last batch is cut short, which must not matter.
        times = [slice_ * 100_000_000 + i * 50_000 for slice_ in range(6) for i in range(10)][:-4]
        self.assertAlmostEqual(rate_between_batches(times, [1] * len(times)), 100)

    def test_too_few_completions(self):
        with self.assertRaises(ValueError):
            rate_between_batches([0, 1], [1, 1])


if __name__ == "__main__":
    unittest.main()
