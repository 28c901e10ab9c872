import types
import unittest

from lib.servers import _table
from lib.tenants import Tenant, Weir


class Settings(unittest.TestCase):
    def test_tables_are_toml(self):
        text = _table('cgroup."/a"', {"io.weight": 7, "price": {"flush": {"ios": 2}}, "list": ["x"], "yes": True})
        self.assertEqual(
            text,
            '[cgroup."/a"]\n"io.weight" = 7\n"list" = ["x"]\n"yes" = true\n'
            '[cgroup."/a".price]\n[cgroup."/a".price.flush]\n"ios" = 2\n',
        )

    def test_a_way_carries_out_what_it_holds(self):
        tenant = Tenant(weight=300, limits={"rbps": 5, "wiops": 6}, prio="rt", settings={"io.limiter": "token"})
        options = types.SimpleNamespace(disk="null")
        self.assertEqual(Weir(options)._cgroup(tenant), {})
        self.assertEqual(
            Weir(options, {"weight", "limits", "prio", "settings"})._cgroup(tenant),
            {"io.weight": 300, "io.max": "disk rbps=5 wiops=6", "io.prio.class": "promote-to-rt", "io.limiter": "token"},
        )


if __name__ == "__main__":
    unittest.main()
