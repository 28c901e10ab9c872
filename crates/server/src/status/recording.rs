//! State of a recording.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The recording of a server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RecordingStatus {
    /// Whether devices are recorded now.
    pub on: bool,
    /// Where the files are.
    pub directory: String,
    /// Closed files there, those of earlier recordings included.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that all files may have; the oldest go.
    pub bytes_max: u64,
    /// Requests recorded since the server started.
    pub requests: u64,
    /// Entries that found no room in memory since then: the devices' threads do not wait.
    pub dropped: u64,
    /// Entries lost since then with files that could not be written.
    pub lost: u64,
    /// Why a file could not be written, until one can be again.
    pub error: Option<String>,
}
