//! Errors of a stream: why a job can make no requests.

/// Why a job and its files give no requests. All numbers are bytes; files count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// There is nothing to read or write.
    #[error("the job has no file")]
    NoFiles,
    /// `offset` and `offset_increment` are beyond the file.
    #[error("file {file}: the region begins at byte {offset}, and the file has {bytes} bytes")]
    OffsetBeyondFile {
        /// The file.
        file: u32,
        /// Start of the region.
        offset: u64,
        /// Length of the file.
        bytes: u64,
    },
    /// `offset` and `size` are beyond the file.
    #[error("file {file}: the region ends at byte {end}, and the file has {bytes} bytes")]
    RegionBeyondFile {
        /// The file.
        file: u32,
        /// End of the region.
        end: u64,
        /// Length of the file.
        bytes: u64,
    },
    /// Not one block fits.
    #[error("file {file}: the smallest block has {block} bytes, and the region has {region} bytes")]
    BlockBeyondRegion {
        /// The file.
        file: u32,
        /// The smallest block of a direction that the job uses.
        block: u64,
        /// Length of the region.
        region: u64,
    },
    /// A block is longer than a request may be.
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
        /// Length of a zone.
        zone: u64,
    },
    /// A zone of `zoned_abs` has no byte of the region.
    #[error("file {file}: a zone begins at byte {begin} of a region of {region} bytes")]
    ZoneBeyondRegion {
        /// The file.
        file: u32,
        /// Start of the zone in the region.
        begin: u64,
        /// Length of the region.
        region: u64,
    },
}
