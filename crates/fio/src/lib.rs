#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod apply;
mod command;
mod elsewhere;
mod error;
mod input;
mod lines;
mod options;
pub mod random;
mod resolve;
mod shapes;
pub mod stream;
mod table;
mod value;
mod workload;

pub use command::{CommandError, CommandLine};
pub use error::{FioError, FioErrors, Place, Problem, ValueError};
pub use input::{Input, JobText, ReadIncluded};
pub use options::{Options, Thinktime};
pub use resolve::{Job, JobFile, parse, parse_input, parse_with};
pub use table::{Ignored, alias_of, ignored_options, refused_options, typed_options};
pub use workload::{
    Amount, BlockSize, ExitWhat, FadviseHint, FileService, Files, IoEngine, LatencyTarget, Mix,
    Order, Pattern, PerDirection, PrioClass, RandomDistribution, RateProcess, ReplaySkip,
    RwSequencer, Split, SteadyRate, SteadyState, Submission, SubmitMode, Sync, ThinkBlocks,
    UnifiedReporting, Zone,
};

/// Longest job file, in bytes; all files of an [`Input`] together.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Longest value after substitution of variables, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// Deepest nesting of included files.
pub const INCLUDED_DEPTH_MAX: usize = 16;

/// Most files that a job file includes, counting repetitions.
pub const INCLUDES_MAX: usize = 1000;

/// Most jobs of a file, clones included.
pub const JOBS_MAX: usize = 100_000;

/// Most errors that are listed; the others are counted.
pub const ERRORS_MAX: usize = 100;
