import tomllib
import unittest

from lib import lab, rows


class Scenario(unittest.TestCase):
    def test_every_row_is_a_scenario(self):
        for row in rows.ROWS.values():
            text = tomllib.loads(lab.scenario(row.about, "hdd7200", row.jobs, row.weights, **rows.COMMON))
            self.assertEqual(text["about"], row.about)
            self.assertEqual(text["job"].count("\n["), len(row.jobs))
            self.assertEqual("weight" in text, bool(row.weights))

    def test_what_is_written(self):
        text = lab.scenario("Two.", "null", {"a": {"cgroup": "x"}}, {"x": 200}, direct=1)
        job = "[global]\nfilename=/dev/disk\ndirect=1\n[a]\ncgroup=x\n"
        self.assertEqual(tomllib.loads(text), {"about": "Two.", "disk": "null", "weight": ["/x 200"], "job": job})


if __name__ == "__main__":
    unittest.main()
