//! fio job files, read as fio 3.33 reads them.
//!
//! [`parse`] makes [`Job`]s of a text: sections, `[global]` sections that reach the jobs below them, `${VARIABLE}`s,
//! comments, fio's numbers, clones (`numjobs`), stages (`stonewall`) and reporting groups. Each [`Job`] carries all of
//! its [`Options`], typed, with fio's defaults. Options that cannot matter to a simulation are accepted and listed once
//! ([`JobFile::ignored`]); options that shape I/O in ways the lab cannot follow are refused with the reason, unknown
//! ones with the nearest name. All errors of a file come at once, each with its place.
//!
//! On purpose stricter than fio, where fio silently does something else than the file says:
//!
//! - an unset `${VARIABLE}` is an error (fio: the empty text);
//! - what follows a number must be its suffix: `1.5m`, which fio takes for one byte, is an error, and so are `4kq`, `0x10k`,
//!   `10x` and `-5`;
//! - percentages of `bssplit` and of zones over 100 are errors;
//! - `$ncpus`, `$pagesize` and `$mb_memory` are refused: they depend on the machine.
//!
//! On purpose milder: blanks around `=` and after `include` never matter, and a comment may follow a section's name.
//!
//! [`parse_input`] reads more than one text: the jobs of a [`CommandLine`], and files with those that they include
//! ([`JobText::load`]). Nothing here opens a file.
//!
//! Source: fio's HOWTO and `--cmdhelp`; where the HOWTO and the program differ (`1mi`, `[globals]`), the program.

mod apply;
mod command;
mod elsewhere;
mod error;
mod input;
mod lines;
mod options;
mod resolve;
mod shapes;
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

/// Longest value after its variables are filled in, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// Most files that are included in one another.
pub const INCLUDED_DEPTH_MAX: usize = 16;

/// Most files that a job file includes, each counted as often as it is included.
pub const INCLUDES_MAX: usize = 1000;

/// Most jobs of a file, clones included.
pub const JOBS_MAX: usize = 100_000;

/// Most errors that are listed; the others are counted.
pub const ERRORS_MAX: usize = 100;
