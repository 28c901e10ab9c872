//! Specification of a flash disk.

/// The settings of an [`Ssd`](super::Ssd).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SsdSpec {
    /// Bytes on the disk, a multiple of 512.
    pub size: u64,
    /// Buses to the flash, 1 to 64.
    pub channels: u64,
    /// Dies on each channel, 1 to 64.
    pub dies: u64,
    /// Planes of a die, 1 to 16, which read, program and erase together: a page of each.
    pub planes: u64,
    /// Bytes in a page, 512 to 1 MiB.
    pub page: u64,
    /// Pages in a block, 1 to 65536.
    pub pages: u64,
    /// Nanoseconds to read a page into the die's register.
    pub read_ns: u64,
    /// Nanoseconds to program a page from the register.
    pub program_ns: u64,
    /// Nanoseconds to erase a block.
    pub erase_ns: u64,
    /// Bytes a second on a channel.
    pub bus: u64,
    /// Bytes a second between host and disk.
    pub interface: u64,
    /// Whether the interface goes both ways at once (PCI Express does, SATA does not).
    pub is_duplex: bool,
    /// Nanoseconds of the controller for a command; commands wait for one another here, so this bounds their rate.
    pub overhead_ns: u64,
    /// Additional nanoseconds of each command, overlapping with other commands.
    pub latency_ns: u64,
    /// Bytes of writes that are acknowledged before they are in the flash; at least a page of each plane.
    pub buffer: u64,
    /// A program that reads have kept waiting this long goes before them.
    pub age_ns: u64,
    /// Whether garbage collection is modelled.
    pub has_gc: bool,
    /// Flash beyond `size`, in percent of it, 1 to 400.
    pub op: u64,
    /// State of the disk at the beginning.
    pub state: SsdState,
}

/// State of a flash disk before the first request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SsdState {
    /// Nothing: all blocks are erased.
    Fresh,
    /// All of it was written once, in order.
    Full,
    /// All of it was written once, and then four times over at random offsets: its steady state.
    Aged,
}

const US: u64 = 1_000;
const MB: u64 = 1_000_000;

impl SsdSpec {
    /// A SATA disk of 500 GB, class of the Samsung 860 EVO (2018), published as 550 MB/s of reads, 520 MB/s of writes,
    /// 98,000 and 90,000 random reads and writes a second and 10,000 reads at depth 1. The times of the flash are
    /// those of the 64-layer generation of TLC, rounded; channels and dies are estimates that fit them.
    pub const SATA: SsdSpec = SsdSpec {
        size: 500_107_862_016,
        channels: 8,
        dies: 2,
        planes: 2,
        page: 16 << 10,
        pages: 768,
        read_ns: 60 * US,
        program_ns: 700 * US,
        erase_ns: 3_500 * US,
        bus: 533 * MB,
        interface: 550 * MB,
        is_duplex: false,
        overhead_ns: 10 * US,
        latency_ns: 15 * US,
        buffer: 32 << 20,
        age_ns: 2_000 * US,
        has_gc: true,
        op: 7,
        state: SsdState::Fresh,
    };

    /// An NVMe disk of 512 GB, class of the Samsung 970 PRO (2018), published as 3,500 MB/s of reads, 2,300 MB/s of
    /// writes, 370,000 random reads a second and 15,000 at depth 1. The times of the flash are those of 64 layers of
    /// MLC, rounded; channels and dies are estimates that fit them.
    pub const NVME: SsdSpec = SsdSpec {
        size: 512_110_190_592,
        channels: 8,
        dies: 4,
        planes: 2,
        page: 16 << 10,
        pages: 512,
        read_ns: 45 * US,
        program_ns: 400 * US,
        erase_ns: 3_500 * US,
        bus: 800 * MB,
        interface: 3_500 * MB,
        is_duplex: true,
        overhead_ns: 2_700,
        latency_ns: 12 * US,
        buffer: 64 << 20,
        age_ns: 2_000 * US,
        has_gc: true,
        op: 7,
        state: SsdState::Fresh,
    };
}
