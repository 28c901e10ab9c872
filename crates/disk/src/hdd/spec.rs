//! Specification of a disk with platters.

/// Settings of a [`Hdd`](super::Hdd). Rates are bytes a second of a long transfer, switches included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HddSpec {
    /// Bytes on the disk, a multiple of 512.
    pub size: u64,
    /// Turns a minute.
    pub rpm: u64,
    /// Surfaces.
    pub heads: u64,
    /// Zones of equally many cylinders; their rates go from `outer` to `inner` in equal steps.
    pub zones: u64,
    /// Sustained rate of the outermost zone, where offset 0 is.
    pub outer: u64,
    /// Sustained rate of the innermost zone; at most `outer`.
    pub inner: u64,
    /// Nanoseconds to the next cylinder, settling included.
    pub track_to_track_ns: u64,
    /// Mean of the seeks between cylinders chosen at random.
    pub average_ns: u64,
    /// From the first cylinder to the last.
    pub full_ns: u64,
    /// From one head to the next on a cylinder.
    pub head_switch_ns: u64,
    /// Bytes a second between host and buffer.
    pub interface: u64,
    /// Nanoseconds to take in a command.
    pub overhead_ns: u64,
    /// Bytes of read-ahead; 0 for none.
    pub readahead: u64,
    /// Segments of the read buffer, 1 to 64, including the current one.
    pub segments: u64,
    /// Bytes of the write cache; 0 switches it off.
    pub cache: u64,
    /// Commands among which the next is chosen.
    pub ncq: u64,
    /// A request that has waited this long goes first, whatever its place.
    pub age_ns: u64,
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const MB: u64 = 1_000_000;

impl HddSpec {
    /// A desktop disk of 1 TB, class of the Seagate Barracuda 7200.12 (2009): 7,200 rpm, two platters, seeks of 8.5 ms,
    /// 125 MB/s at the outer edge, SATA 3 Gb/s and 32 MiB of buffer, here half of it for writes; figures as the class
    /// was published, the inner rate about half the outer as platters of 3.5 inch have it.
    pub const HDD7200: HddSpec = HddSpec {
        size: 1_000_204_886_016,
        rpm: 7200,
        heads: 4,
        zones: 16,
        outer: 125 * MB,
        inner: 60 * MB,
        track_to_track_ns: MS,
        average_ns: 8_500 * US,
        full_ns: 18 * MS,
        head_switch_ns: 800 * US,
        interface: 300 * MB,
        overhead_ns: 10 * US,
        readahead: 1 << 20,
        segments: 16,
        cache: 16 << 20,
        ncq: 32,
        age_ns: 1_000 * MS,
    };

    /// A laptop disk of the class of the FUJITSU MHX2300BT (2007): 300 GB at 4,200 rpm in 12.5 mm, which is three
    /// platters, SATA 1.5 Gb/s, 8 MiB of buffer and mean seeks of 12 ms. The sustained rates are estimates from density
    /// and speed.
    pub const HDD4200: HddSpec = HddSpec {
        size: 300_069_052_416,
        rpm: 4200,
        heads: 6,
        zones: 16,
        outer: 42 * MB,
        inner: 22 * MB,
        track_to_track_ns: 1_500 * US,
        average_ns: 12 * MS,
        full_ns: 22 * MS,
        head_switch_ns: 1_200 * US,
        interface: 150 * MB,
        overhead_ns: 20 * US,
        readahead: 512 << 10,
        segments: 8,
        cache: 4 << 20,
        ncq: 32,
        age_ns: 1_000 * MS,
    };

    /// The disk of the io-throttle results of 2009, of which only the rate is known: streams of about 19 MiB/s. The
    /// rest is a laptop disk of a few years before, parallel ATA and without queueing.
    pub const DISK2009: HddSpec = HddSpec {
        size: 80_026_361_856,
        rpm: 4200,
        heads: 4,
        zones: 8,
        outer: 20 * MB,
        inner: 12 * MB,
        track_to_track_ns: 2_500 * US,
        average_ns: 12 * MS,
        full_ns: 23 * MS,
        head_switch_ns: 1_500 * US,
        interface: 100 * MB,
        overhead_ns: 20 * US,
        readahead: 256 << 10,
        segments: 4,
        cache: 2 << 20,
        ncq: 1,
        age_ns: 1_000 * MS,
    };
}
