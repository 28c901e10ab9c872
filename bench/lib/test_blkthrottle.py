import pathlib
import tempfile
import unittest

from lib.blkthrottle import find_controller, limit_lines
from lib.servers import Absent


class Controller(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def mounts(self, *lines):
        path = self.root / "mounts"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    def unified(self, controllers):
        (self.root / "cgroup.controllers").write_text(controllers, encoding="ascii")
        (self.root / "cgroup.subtree_control").write_text("cpu\n", encoding="ascii")
        return f"cgroup2 {self.root} cgroup2 rw,relatime 0 0"

    def test_version_1_where_blkio_is_mounted(self):
        mounts = self.mounts(self.unified("hugetlb\n"), "cgroup /cg/blkio cgroup rw,relatime,blkio 0 0")
        self.assertEqual(find_controller(mounts), (1, pathlib.Path("/cg/blkio")))

    def test_version_2_turns_the_controller_on(self):
        mounts = self.mounts(self.unified("cpu io memory\n"))
        self.assertEqual(find_controller(mounts), (2, self.root))
        self.assertEqual((self.root / "cgroup.subtree_control").read_text(encoding="ascii"), "+io")

    def test_neither(self):
        with self.assertRaises(Absent):
            find_controller(self.mounts(self.unified("hugetlb\n"), "cgroup /cg/cpu cgroup rw,cpu 0 0"))

    def test_what_is_written(self):
        one, two = {"riops": 100}, {"riops": 100, "rbps": 4096}
        reads, bytes_ = "blkio.throttle.read_iops_device", "blkio.throttle.read_bps_device"
        self.assertEqual(limit_lines(1, "7:3", one), [(reads, "7:3 100")])
        self.assertEqual(limit_lines(1, "7:3", two), [(reads, "7:3 100"), (bytes_, "7:3 4096")])
        self.assertEqual(limit_lines(2, "7:3", two), [("io.max", "7:3 riops=100 rbps=4096")])


if __name__ == "__main__":
    unittest.main()
