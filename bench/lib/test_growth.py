import unittest

from lib.growth import power, rates_of

PRINTED = """
                                                                 I/Os     CPU s I/Os a CPU s
10 cgroups x 4 processes at limits, in step                   2000000      0.43      4650995
10000 cgroups x 4 processes at limits, in step                8000000      2.14      3733175
10 cgroups x 4 processes at limits, in no order               2000000      0.61      3252799
25000 cgroups x 4 processes, setting up alone                  100000      0.48       210097
(a trace: WEIR_TRACE=FILE.csv.gz make bench-lab)
"""


class Growth(unittest.TestCase):
    def test_rows_are_known_by_their_processes_and_order(self):
        expected = {"in step": {40: 4650995, 40_000: 3733175}, "in no order": {40: 3252799}}
        self.assertEqual(rates_of(PRINTED), expected)
        self.assertEqual(rates_of(""), {})

    def test_powers(self):
        self.assertEqual(power([(1, 5), (10, 50), (100, 50_000)]), [1, 2])
        self.assertEqual(power([(4, 1), (16, 1)]), [0])


if __name__ == "__main__":
    unittest.main()
