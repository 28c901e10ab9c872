import unittest
import xml.etree.ElementTree

from lib.plot import front, growth, scatter


class Front(unittest.TestCase):
    def test_what_is_worse_in_both_ways_is_not_on_the_front(self):
        points = [(0.5, 10, "a"), (0.4, 20, "worse"), (0.9, 30, "b"), (0.9, 40, "worse"), (1.0, 99, "c")]
        self.assertEqual([name for *_, name in front(points)], ["a", "b", "c"])
        self.assertEqual(front([]), [])

    def test_a_drawing_is_well_formed_whatever_names_there_are(self):
        series = {"<one>": [(0.5, 150, "a & b"), (2.0, 1e9, "far out")], "none": []}
        drawing = scatter("A < B", "x", "y", series, [(100, "100 us"), (1000, "1 ms")])
        root = xml.etree.ElementTree.fromstring(drawing)
        titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(titles, ["<one>: a & b", "<one>: far out", "<one>", "none"])
        for circle in root.iter("{http://www.w3.org/2000/svg}circle"):
            self.assertLess(float(circle.get("cx")), 860)
            self.assertGreaterEqual(float(circle.get("cy")), 50)

    def test_what_grows_in_proportion_lies_on_its_dashed_line(self):
        ticks = [(1, "1"), (1000, "1,000")]
        drawing = growth("A < B", "x", "y", {"even": [(1, 2), (10, 20), (100, 200)], "steep": [(1, 1), (10, 100)]}, ticks, ticks)
        root = xml.etree.ElementTree.fromstring(drawing)
        lines = [each.get("points").split() for each in root.iter("{http://www.w3.org/2000/svg}polyline")]
        self.assertEqual([len(line) for line in lines], [2, 3, 2, 2])
        self.assertEqual(lines[0], [lines[1][0], lines[1][-1]])
        self.assertEqual(lines[2][0], lines[3][0])
        self.assertLess(float(lines[3][1].split(",")[1]), float(lines[2][1].split(",")[1]), "above it")


if __name__ == "__main__":
    unittest.main()
