//! What a request costs, from three figures of a benchmark.

/// A second is 2^37 units of cost.
pub(super) const SECOND_SHIFT: u32 = 37;

const SECOND: u64 = 1 << SECOND_SHIFT;

/// Bytes in a page.
const PAGE: u64 = 4096;

/// The coefficients of reads, or of writes, in units of 2^-37 s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Costs {
    pub(super) page: u64,
    pub(super) sequential: u64,
    pub(super) random: u64,
}

impl Costs {
    /// From bytes a second, and sequential and random requests of a page a second; each at least 1.
    ///
    /// A page takes its share of a second at the rate in bytes. The base is what is left of a request of one page, and
    /// nothing if that is less than the page alone. All divisions round up.
    pub(super) fn new(bps: u64, seq_iops: u64, rand_iops: u64) -> Costs {
        let page = SECOND.div_ceil(bps.div_ceil(PAGE));
        let base = |iops: u64| SECOND.div_ceil(iops).saturating_sub(page);
        Costs { page, sequential: base(seq_iops), random: base(rand_iops) }
    }

    /// The cost of a request; part of a page counts as a page, and nothing as one.
    pub(super) fn of(&self, is_random: bool, len: u32) -> u128 {
        let base = if is_random { self.random } else { self.sequential };
        let pages = u64::from(len).div_ceil(PAGE).max(1);
        u128::from(base) + u128::from(pages) * u128::from(self.page)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DRIVES, LinearSpec};
    use super::*;

    fn profile(name: &str) -> LinearSpec {
        DRIVES.iter().find(|(preset, _)| preset.name == name).unwrap().1
    }

    /// Costs of 4 KiB at random, 4 KiB in order, 64 KiB at random and 1 MiB in order, in ns, and the page's in units.
    #[test]
    fn the_kernels_profiles_cost_what_they_should() {
        let read = |name| {
            let spec = profile(name);
            Costs::new(spec.read_bps, spec.read_seq_iops, spec.read_rand_iops)
        };
        let write = |name| {
            let spec = profile(name);
            Costs::new(spec.write_bps, spec.write_seq_iops, spec.write_rand_iops)
        };
        for (costs, wanted_ns, page) in [
            (read("linear-hdd"), [2_702_700, 23_976, 3_055_760, 6_025_950], 3_234_924),
            (read("linear-ssd-default"), [117_398, 111_957, 243_135, 2_249_480], 1_152_074),
            (write("linear-ssd-default"), [45_579, 34_777, 189_166, 2_475_760], 1_315_634),
            (read("linear-ssd-fast"), [1_320, 1_380, 21_123, 338_030], 181_449),
        ] {
            assert_eq!(costs.page, page);
            let requests = [(true, 4 << 10), (false, 4 << 10), (true, 64 << 10), (false, 1 << 20)];
            let seen_ns = requests
                .map(|(is_random, len)| ((costs.of(is_random, len) * 1_000_000_000) >> 37) as u64);
            for (seen, wanted) in seen_ns.into_iter().zip(wanted_ns) {
                // The table has five or six digits.
                assert!(
                    seen.abs_diff(wanted) <= (wanted / 100_000).max(1) * 2,
                    "{seen} for {wanted}"
                );
            }
        }
    }

    #[test]
    fn parts_of_a_page_cost_a_page() {
        let costs = Costs { page: 10, sequential: 1, random: 100 };
        let of = |len| (costs.of(false, len), costs.of(true, len));
        assert_eq!([0, 1, 4096, 4097].map(of), [(11, 110), (11, 110), (11, 110), (21, 120)]);
        // A disk whose rate in bytes is the limit has no base.
        assert_eq!(
            Costs::new(4096, 1_000_000, 1),
            Costs { page: SECOND, sequential: 0, random: 0 }
        );
    }
}
