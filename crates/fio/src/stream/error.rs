//! Why a job can make no requests.

/// What of a job and its files cannot work. All numbers are bytes; files count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// There is nothing to read or write.
    #[error("the job has no file")]
    NoFiles,
    /// `offset` and `offset_increment` go too far.
    #[error("file {file}: the region begins at byte {offset}, and the file has {bytes} bytes")]
    OffsetBeyondFile {
        /// Which.
        file: u32,
        /// Where the region begins.
        offset: u64,
        /// How long the file is.
        bytes: u64,
    },
    /// `offset` and `size` go too far.
    #[error("file {file}: the region ends at byte {end}, and the file has {bytes} bytes")]
    RegionBeyondFile {
        /// Which.
        file: u32,
        /// Where the region ends.
        end: u64,
        /// How long the file is.
        bytes: u64,
    },
    /// Not one block fits.
    #[error("file {file}: the smallest block has {block} bytes, and the region has {region} bytes")]
    BlockBeyondRegion {
        /// Which.
        file: u32,
        /// The smallest block of a direction that the job uses.
        block: u64,
        /// How long the region is.
        region: u64,
    },
    /// No request is that long.
    #[error("a block has {block} bytes, and the most that a request can have is {max} bytes")]
    BlockTooLong {
        /// The largest block of a direction that the job uses.
        block: u64,
        /// 2^32 - 1.
        max: u64,
    },
    /// No random request fits into a zone of `zonemode=strided`.
    #[error("the smallest block has {block} bytes, and a zone has {zone} bytes")]
    BlockBeyondZone {
        /// The smallest block of a direction that the job uses.
        block: u64,
        /// How long a zone is.
        zone: u64,
    },
    /// A zone of `zoned_abs` has no byte of the region.
    #[error("file {file}: a zone begins at byte {begin} of a region of {region} bytes")]
    ZoneBeyondRegion {
        /// Which.
        file: u32,
        /// Where the zone begins, from the region's begin.
        begin: u64,
        /// How long the region is.
        region: u64,
    },
}
