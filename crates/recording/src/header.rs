//! Header of a file: what is true of all its rows, as JSON in the metadata of the file.

use serde::{Deserialize, Serialize};

/// Key of the header among a file's metadata.
pub const HEADER_KEY: &str = "weir.recording";

/// What is true of all rows of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Version of the schema: [`crate::VERSION`].
    pub version: u32,
    /// Version of Weir.
    pub weir: String,
    /// Name of the device.
    pub device: String,
    /// Size of the device, in bytes.
    pub device_bytes: u64,
    /// The model that the server emulates, or none for a real device.
    pub disk: Option<String>,
    /// Beginning of the recording, which tells recordings of one device apart: nanoseconds since 1970, UTC.
    pub began_ns: u64,
    /// Number of the file in its recording, from 1.
    pub file: u64,
    /// Whether the recording began with the server, before the first request.
    pub from_start: bool,
    /// What is added to the engine's instants for the column `time`, in nanoseconds.
    pub clock_offset_ns: i64,
    /// Inputs before the file.
    pub steps_before: u64,
    /// Inputs up to its end.
    pub steps: u64,
    /// Requests that have ended in the file.
    pub requests: u64,
    /// Entries that found no room in memory, from the beginning of the recording up to the end of the file.
    pub dropped: u64,
}
