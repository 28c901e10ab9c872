//! Device time of a request: the linear model, in integers.
//!
//! A device is described by three figures for each direction, as benchmarks tell them. From them follow a time for each
//! page of 4 KiB, and a base for each request, which depends on whether it goes on where one before it ended:
//!
//! ```text
//! page  = 1 s / (bytes a second / 4 KiB)      base = 1 s / IOPS - page, at least 0
//! price = base (sequential or random) + pages * page
//! ```
//!
//! All divisions round up. Times are kept in 2^-37 s (7.3 ps), because a page of a fast flash disk takes a little more
//! than a microsecond, and whole nanoseconds would be off by a thousandth.
//!
//! Source: Heo et al., "IOCost: Block IO Control for Containers in Datacenters", ASPLOS 2022.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::types::{Direction, Extent, Op};

/// A second is 2^37 units of [`DeviceTime`].
const SECOND_SHIFT: u32 = 37;

const SECOND: u64 = 1 << SECOND_SHIFT;

/// Bytes in a page.
const PAGE: u64 = 4096;

/// A request that begins farther than this from where one before it ended is random.
const NEAR: u64 = 16 << 20;

/// A stretch of a device's time, in 2^-37 s; up to four years.
///
/// A price is below 2^58 units (24 days), whatever the figures and the length, so 64 of them can be added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DeviceTime(u64);

impl DeviceTime {
    /// No time.
    pub const ZERO: DeviceTime = DeviceTime(0);

    /// 2^this units are a second.
    pub const SECOND_SHIFT: u32 = SECOND_SHIFT;

    /// In units of 2^-37 s.
    pub const fn units(self) -> u64 {
        self.0
    }

    /// In whole nanoseconds, rounded up; what is not nothing stays so.
    pub const fn as_nanos(self) -> u64 {
        let units = self.0 as u128 * 1_000_000_000;
        // At most 2^27 s, so below 2^57.
        units.div_ceil(SECOND as u128) as u64
    }

    /// This and `more`; saturates.
    #[must_use]
    pub const fn plus(self, more: DeviceTime) -> DeviceTime {
        DeviceTime(self.0.saturating_add(more.0))
    }
}

/// What a device does in one direction when it does nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CostFigures {
    /// Bytes a second of long requests.
    pub bytes_per_sec: NonZeroU64,
    /// Requests of 4 KiB a second, one after the other on the device.
    pub sequential_iops: NonZeroU64,
    /// Requests of 4 KiB a second at random places.
    pub random_iops: NonZeroU64,
}

impl CostFigures {
    /// From bytes a second, and sequential and random requests of 4 KiB a second; `None` if one is 0.
    ///
    /// More requests than the bytes a second allow are no error: they cost as their bytes do.
    pub const fn new(
        bytes_per_sec: u64,
        sequential_iops: u64,
        random_iops: u64,
    ) -> Option<CostFigures> {
        let (Some(bytes_per_sec), Some(sequential_iops), Some(random_iops)) = (
            NonZeroU64::new(bytes_per_sec),
            NonZeroU64::new(sequential_iops),
            NonZeroU64::new(random_iops),
        ) else {
            return None;
        };
        Some(CostFigures { bytes_per_sec, sequential_iops, random_iops })
    }
}

/// Prices of requests on one device, in the device's time: at a utilisation of 100 % the prices of a second add up to a
/// second.
///
/// The model believes in a device that does one thing at a time, with the same capacity at any depth. Reads and
/// prefetches are priced as reads, writes as writes. Flushes, discards, zeroing and status calls have a price of 0:
/// nothing is measured of them, and a guess would be wrong by orders of magnitude between devices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "[u64; 6]", try_from = "[u64; 6]"))]
pub struct CostModel {
    reads: Coefficients,
    writes: Coefficients,
}

impl CostModel {
    /// From what the device does when it only reads, and when it only writes.
    pub const fn new(reads: CostFigures, writes: CostFigures) -> CostModel {
        CostModel { reads: Coefficients::new(reads), writes: Coefficients::new(writes) }
    }

    /// From six figures as `io.cost.model` has them: bytes a second, and sequential and random requests of 4 KiB a second,
    /// of reads and of writes. As there, what a figure of 0 stands for takes no time.
    pub const fn from_io_cost(reads: [u64; 3], writes: [u64; 3]) -> CostModel {
        CostModel { reads: Coefficients::of(reads), writes: Coefficients::of(writes) }
    }

    /// The price of a request of `len` bytes that does, or does not, go on where one before it ended; see
    /// [`Positions`].
    ///
    /// Part of a page counts as a page, and a transfer of nothing as one. A longer request never costs less, and
    /// splitting one never makes it cheaper. O(1), no division.
    pub const fn price(&self, op: Op, len: u32, is_sequential: bool) -> DeviceTime {
        match op {
            Op::Read | Op::Cache => self.reads.price(len, is_sequential),
            Op::Write => self.writes.price(len, is_sequential),
            Op::Flush | Op::Discard | Op::WriteZeroes | Op::Status => DeviceTime::ZERO,
        }
    }

    /// What a page takes, beyond the request's base: in the long run the reciprocal of the bytes a second.
    pub const fn page(&self, direction: Direction) -> DeviceTime {
        match direction {
            Direction::Read => DeviceTime(self.reads.page),
            Direction::Write => DeviceTime(self.writes.page),
        }
    }
}

/// Page, sequential and random of reads, then of writes, in units of [`DeviceTime`].
impl From<CostModel> for [u64; 6] {
    fn from(CostModel { reads, writes }: CostModel) -> [u64; 6] {
        let [read, write] = [reads, writes].map(|of| [of.page, of.sequential, of.random]);
        [read[0], read[1], read[2], write[0], write[1], write[2]]
    }
}

/// A time of a [`CostModel`] is longer than a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{units} units of 2^-37 s are longer than a second, the longest time of a cost model")]
pub struct CostTooLong {
    units: u64,
}

impl TryFrom<[u64; 6]> for CostModel {
    type Error = CostTooLong;

    fn try_from(units: [u64; 6]) -> Result<CostModel, CostTooLong> {
        if let Some(&units) = units.iter().find(|&&units| units > SECOND) {
            return Err(CostTooLong { units });
        }
        let [reads, writes] = [0, 3].map(|at| Coefficients {
            page: units[at],
            sequential: units[at + 1],
            random: units[at + 2],
        });
        Ok(CostModel { reads, writes })
    }
}

/// In units of [`DeviceTime`], each at most a second.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Coefficients {
    page: u64,
    sequential: u64,
    random: u64,
}

impl Coefficients {
    /// The base is what is left of a request of one page, and nothing if that is less than the page alone.
    const fn new(figures: CostFigures) -> Coefficients {
        let CostFigures { bytes_per_sec, sequential_iops, random_iops } = figures;
        Coefficients::of([bytes_per_sec.get(), sequential_iops.get(), random_iops.get()])
    }

    /// Likewise; a figure of 0 makes its part free.
    const fn of([bytes_per_sec, sequential_iops, random_iops]: [u64; 3]) -> Coefficients {
        let page = time_of_one(bytes_per_sec.div_ceil(PAGE));
        let sequential = time_of_one(sequential_iops).saturating_sub(page);
        let random = time_of_one(random_iops).saturating_sub(page);
        Coefficients { page, sequential, random }
    }

    const fn price(&self, len: u32, is_sequential: bool) -> DeviceTime {
        let base = if is_sequential { self.sequential } else { self.random };
        let pages = if len == 0 { 1 } else { (len as u64).div_ceil(PAGE) };
        // At most 2^37 + 2^20 * 2^37.
        DeviceTime(base + pages * self.page)
    }
}

/// A second divided by `per_second`, rounded up; nothing of 0.
const fn time_of_one(per_second: u64) -> u64 {
    if per_second == 0 { 0 } else { SECOND.div_ceil(per_second) }
}

/// Where requests ended on a device, to tell which of the next go on there.
///
/// Positions are the device's, not a task's: a request costs more the farther the device was
/// before it, whichever task sent it there. Two tasks that each read in order, by turns, make a disk with arms seek, and should pay for it; a device that
/// follows several streams at once is told how many (`streams`). The order that counts is that of dispatch.
///
/// 8 bytes for each stream, allocated once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Positions {
    /// Where requests ended, the last first; never empty.
    ends: Vec<u64>,
    streams: usize,
}

impl Positions {
    /// Most streams that can be followed.
    pub const STREAMS_MAX: usize = 64;

    /// A device that was last at offset 0 and follows so many streams, 1 to [`Positions::STREAMS_MAX`]; a number outside
    /// counts as the nearest inside.
    pub fn new(streams: usize) -> Positions {
        let streams = streams.clamp(1, Positions::STREAMS_MAX);
        let mut ends = Vec::with_capacity(streams);
        ends.push(0);
        Positions { ends, streams }
    }

    /// Whether the next request goes on where one ended, within 16 MiB before or behind; from now on its end is one of
    /// these places, and the one that nothing went on from for longest is forgotten if they are too many. O(streams).
    pub fn is_sequential(&mut self, extent: Extent) -> bool {
        let near = self.ends.iter().position(|end| end.abs_diff(extent.offset) <= NEAR);
        let end = extent.offset.saturating_add(u64::from(extent.len));
        match near {
            Some(index) => self.ends[..=index].rotate_right(1),
            None if self.ends.len() < self.streams => self.ends.insert(0, end),
            None => self.ends.rotate_right(1),
        }
        self.ends[0] = end;
        near.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn figures(bytes_per_sec: u64, sequential_iops: u64, random_iops: u64) -> CostFigures {
        CostFigures::new(bytes_per_sec, sequential_iops, random_iops).unwrap()
    }

    fn model(reads: CostFigures) -> CostModel {
        CostModel::new(reads, reads)
    }

    /// Prices of 4 KiB at random, 4 KiB in order, 64 KiB at random and 1 MiB in order, and the page's in units, worked
    /// out by hand from the default profiles of the kernel's iocost.
    #[test]
    fn the_kernels_profiles_cost_what_they_should() {
        for (figures, wanted_ns, page) in [
            (
                figures(174_019_176, 41_708, 370),
                [2_702_700, 23_976, 3_055_760, 6_025_950],
                3_234_924,
            ),
            (figures(488_636_629, 8932, 8518), [117_398, 111_957, 243_135, 2_249_480], 1_152_074),
            (figures(427_891_549, 28_755, 21_940), [45_579, 34_777, 189_166, 2_475_760], 1_315_634),
            (figures(3_102_524_156, 724_816, 778_122), [1_320, 1_380, 21_123, 338_030], 181_449),
        ] {
            let model = model(figures);
            assert_eq!(model.page(Direction::Read).units(), page);
            let requests = [(4 << 10, false), (4 << 10, true), (64 << 10, false), (1 << 20, true)];
            for ((len, is_sequential), wanted) in requests.into_iter().zip(wanted_ns) {
                for op in [Op::Read, Op::Cache, Op::Write] {
                    let seen = model.price(op, len, is_sequential).as_nanos();
                    // The table has four to six digits.
                    let slack = (wanted / 100_000).max(1) * 2;
                    assert!(seen.abs_diff(wanted) <= slack, "{seen} for {wanted}");
                }
            }
        }
    }

    #[test]
    fn parts_of_a_page_cost_a_page() {
        // A page takes an eighth of a second, and a request a quarter or a half.
        let model = model(figures(8 * PAGE, 4, 2));
        let eighth = SECOND / 8;
        for (len, pages) in [(0, 1), (1, 1), (4096, 1), (4097, 2), (u32::MAX, 1 << 20)] {
            let price = |is_sequential| model.price(Op::Read, len, is_sequential).units() / eighth;
            assert_eq!((price(true), price(false)), (1 + pages, 3 + pages), "{len}");
        }
        assert_eq!(model.price(Op::Read, 4096, true).as_nanos(), 250_000_000);
    }

    #[test]
    fn a_figure_of_0_makes_its_part_free() {
        let free = CostModel::from_io_cost([0, 4, 2], [8 * PAGE, 0, 0]);
        let price = |op, len, is_sequential| free.price(op, len, is_sequential).units();
        assert_eq!(price(Op::Read, 1 << 20, true), SECOND / 4);
        assert_eq!(price(Op::Read, 4096, false), SECOND / 2);
        for is_sequential in [true, false] {
            assert_eq!(price(Op::Write, 8192, is_sequential), SECOND / 4);
        }
        let nothing = CostModel::from_io_cost([0; 3], [0; 3]);
        assert_eq!(nothing.price(Op::Write, u32::MAX, false), DeviceTime::ZERO);
    }

    #[test]
    fn a_rate_in_bytes_that_is_the_limit_leaves_no_base() {
        let model = model(figures(4096, 1_000_000, 1));
        assert_eq!(model.price(Op::Write, 4096, true).units(), SECOND);
        assert_eq!(model.price(Op::Write, 8192, false).units(), 2 * SECOND);
    }

    #[test]
    fn directions_have_prices_of_their_own_and_the_rest_has_none() {
        let model = CostModel::new(figures(1 << 20, 128, 8), figures(1 << 20, 64, 4));
        let price = |op| model.price(op, 4096, false).as_nanos();
        assert_eq!((price(Op::Read), price(Op::Write)), (125_000_000, 250_000_000));
        for op in [Op::Flush, Op::Discard, Op::WriteZeroes, Op::Status] {
            assert_eq!(model.price(op, u32::MAX, false), DeviceTime::ZERO);
        }
    }

    #[test]
    fn nothing_is_as_slow_as_one_of_each() {
        let slowest = figures(1, 1, 1);
        assert_eq!(model(slowest).price(Op::Read, u32::MAX, false).units(), SECOND << 20);
        assert_eq!(CostFigures::new(0, 1, 1), None);
        assert_eq!(CostFigures::new(1, 0, 1), None);
        assert_eq!(CostFigures::new(1, 1, 0), None);
        let most = DeviceTime(u64::MAX);
        assert_eq!((most.plus(DeviceTime(1)), most.as_nanos()), (most, 1_000_000_000 << 27));
    }

    #[test]
    fn what_goes_on_where_one_ended_is_sequential() {
        let mut one = Positions::new(1);
        let read = |offset| Extent::new(offset, 4096);
        assert!(one.is_sequential(read(0)));
        assert!(one.is_sequential(read(4096 + NEAR)) && !one.is_sequential(read(9000 + 3 * NEAR)));
        // Behind as well as before.
        assert!(one.is_sequential(read(9000 + 4096 + 2 * NEAR)));
        assert!(!one.is_sequential(read(u64::MAX)) && !one.is_sequential(read(0)));
    }

    #[test]
    fn as_many_streams_are_followed_as_there_are() {
        for (streams, readers, sequential) in
            [(1, 2, false), (2, 2, true), (3, 4, false), (64, 64, true)]
        {
            let mut positions = Positions::new(streams);
            let mut read = |turn: u64, reader: u64| {
                positions.is_sequential(Extent::new((reader << 30) + turn * 4096, 4096))
            };
            (0..readers).for_each(|reader| {
                read(0, reader);
            });
            let again = (0..readers).filter(|&reader| read(1, reader)).count() as u64;
            assert_eq!(again, if sequential { readers } else { 0 }, "{streams} {readers}");
        }
        assert_eq!(Positions::new(0), Positions::new(1));
        assert_eq!(Positions::new(usize::MAX), Positions::new(64));
    }

    fn any_figures() -> impl Strategy<Value = CostFigures> {
        let figure = || prop_oneof![1..=u64::MAX, 1..1u64 << 40, 1..1000u64];
        (figure(), figure(), figure()).prop_map(|(bytes, seq, rand)| figures(bytes, seq, rand))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// More bytes never cost less, two requests never less than one, and slower devices never less than faster ones.
        #[test]
        fn prices_are_monotone_and_never_overflow(
            of in any_figures(),
            (len, more) in (any::<u32>(), any::<u32>()),
            (slower, is_sequential) in (1..1000u64, any::<bool>()),
        ) {
            let price = |of, len| model(of).price(Op::Read, len, is_sequential);
            let whole = len.saturating_add(more);
            prop_assert!(price(of, len) <= price(of, whole));
            prop_assert!(price(of, whole).units() < 1 << 58);
            prop_assert!(price(of, len).units() > 0);
            prop_assert!(price(of, len).plus(price(of, whole - len)) >= price(of, whole));
            let down = |figure: NonZeroU64| (figure.get() / slower).max(1);
            let slow = figures(down(of.bytes_per_sec), down(of.sequential_iops), down(of.random_iops));
            prop_assert!(price(slow, len) >= price(of, len));
            let nanos = u128::from(price(of, whole).as_nanos());
            let exact = u128::from(price(of, whole).units()) * 1_000_000_000;
            prop_assert!(nanos << 37 >= exact && (nanos - 1) << 37 < exact);
        }

        /// A page at a time costs what the figures say, to a nanosecond: the rate in bytes or in requests, whichever is less.
        #[test]
        fn a_page_costs_the_reciprocal_of_the_rate(
            bytes in 4096..1u64 << 40, iops in 1..1u64 << 30, is_sequential in any::<bool>(),
        ) {
            let (seq, rand) = if is_sequential { (iops, 1) } else { (1, iops) };
            let seen = model(figures(bytes, seq, rand)).price(Op::Read, 4096, is_sequential).as_nanos();
            let wanted = 1_000_000_000u64.div_ceil(iops).max(1_000_000_000u64.div_ceil(bytes.div_ceil(4096)));
            prop_assert!(seen.abs_diff(wanted) <= 1, "{seen} for {wanted}");
        }
    }
}
