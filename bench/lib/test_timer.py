import unittest

from lib.timer import waits


class Timer(unittest.TestCase):
    def test_one_wait_for_each_turn(self):
        # A turn that has passed while thinking is taken at once, and moves no other.
        self.assertEqual(len(waits(1000, 0.0, 0.02)), 20)
        self.assertEqual(len(waits(1000, 0.003, 0.02)), 20)


if __name__ == "__main__":
    unittest.main()
