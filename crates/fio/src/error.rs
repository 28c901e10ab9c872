//! Errors in job files, and their places.

use std::fmt;
use std::sync::Arc;

use super::{ERRORS_MAX, FILE_BYTES_MAX, INCLUDES_MAX, JOBS_MAX, VALUE_BYTES_MAX};

/// A place in a job file, or an argument of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, unless it is the first one; the argument, of a command line.
    pub file: Option<Arc<str>>,
    /// Line, from 1; 0 on a command line.
    pub line: usize,
    /// Column in bytes, from 1; 0 on a command line.
    pub column: usize,
    /// Lines and arguments read before it, those of included files among them.
    pub order: usize,
}

impl Place {
    pub(super) fn top() -> Place {
        Place { file: None, line: 1, column: 1, order: 0 }
    }

    /// Sorts places in the order of reading.
    pub(super) fn key(&self) -> (usize, usize) {
        (self.order, self.column)
    }

    /// For a sentence about one input: `line 3`, `common.fio line 3`, `--bs=4k`.
    pub fn words(&self) -> String {
        match (&self.file, self.line) {
            (None, line) => format!("line {line}"),
            (Some(argument), 0) => argument.to_string(),
            (Some(file), line) => format!("{file} line {line}"),
        }
    }

    /// For a list of errors of the input `name`.
    fn prefix(&self, name: &str) -> String {
        let file = self.file.as_deref().unwrap_or(name);
        match self.line {
            0 => file.to_owned(),
            line => format!("{file}:{line}:{}", self.column),
        }
    }
}

/// All errors of a file, in the order of its lines; at most [`ERRORS_MAX`] are listed.
#[derive(Debug, Clone, PartialEq)]
pub struct FioErrors {
    /// The file's name, as given to [`super::parse`].
    pub name: String,
    /// Never empty.
    pub errors: Vec<FioError>,
    /// Errors beyond those listed.
    pub more: usize,
}

/// One error and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct FioError {
    /// Its place.
    pub place: Place,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong at a place.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// A file that is too long to be read.
    #[error("the file is {bytes} bytes long: at most {FILE_BYTES_MAX} are allowed")]
    FileTooLong {
        /// Its length.
        bytes: usize,
    },
    /// Bytes that are no UTF-8, outside comments.
    #[error("the line is not UTF-8")]
    NotUtf8,
    /// An option above the first `[section]`.
    #[error("option {option:?} stands above the first [section]")]
    OutsideSection {
        /// The option.
        option: String,
    },
    /// `[name` without `]`.
    #[error("the section's name has no closing \"]\"")]
    SectionUnclosed,
    /// `[]`.
    #[error("the section has no name")]
    SectionUnnamed,
    /// Text after `]` that is no comment.
    #[error("{text:?} follows the section's name")]
    AfterSection {
        /// The text.
        text: String,
    },
    /// `include FILE` of a file that cannot be read.
    #[error("include {path:?}: {reason}")]
    Include {
        /// The file named.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A file that is included again and again.
    #[error("more than {INCLUDES_MAX} files are included")]
    ManyIncludes,
    /// A `[section]` in an included file.
    #[error("a section in an included file: fio allows only options there")]
    SectionIncluded,
    /// `--section` names no job.
    #[error("--section: there is no job {name:?}")]
    NoSection {
        /// The name.
        name: String,
    },
    /// A job that writes, under `--readonly`.
    #[error("the job writes or trims, and --readonly allows no job to")]
    ReadOnly,
    /// An option that fio does not have.
    #[error("unknown option {option:?}")]
    UnknownOption {
        /// The option.
        option: String,
        /// The nearest option, if any is near.
        nearest: Option<&'static str>,
    },
    /// An option that shapes I/O in a way that is not simulated.
    #[error("{option} is not simulated: {reason}")]
    NotSimulated {
        /// The option, by its main name.
        option: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// An option's value.
    #[error("{option}: {error}")]
    Value {
        /// The option, as written.
        option: String,
        /// What is wrong with its value.
        error: ValueError,
    },
    /// `${NAME}` without a value.
    #[error("variable {name:?} is not set")]
    UnsetVariable {
        /// The variable.
        name: String,
    },
    /// `${` without `}`.
    #[error("\"${{\" has no closing \"}}\"")]
    UnclosedVariable,
    /// `$ncpus` and its like.
    #[error("{keyword} depends on the machine: write the number")]
    MachineKeyword {
        /// The keyword.
        keyword: &'static str,
    },
    /// A value that is too long once its variables are filled in.
    #[error("the value is longer than {VALUE_BYTES_MAX} bytes")]
    ValueTooLong,
    /// `wait_for` names no job above.
    #[error("wait_for: no job above is called {name:?}")]
    NoWaitee {
        /// The name.
        name: String,
        /// The nearest job, if any is near.
        nearest: Option<String>,
    },
    /// `wait_for` names several jobs.
    #[error("wait_for: {sections} sections above are called {name:?}, it must be one")]
    ManyWaitees {
        /// The name.
        name: String,
        /// Sections with that name.
        sections: usize,
    },
    /// More jobs than [`JOBS_MAX`], clones included.
    #[error("with these there are {jobs} jobs: at most {JOBS_MAX} are allowed")]
    TooManyJobs {
        /// Jobs up to and with this section.
        jobs: u64,
    },
    /// Two options of a job that exclude each other.
    #[error("{first} and {second} exclude each other")]
    Exclusive {
        /// The one.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// `rate_min` over `rate`, or the same in I/Os.
    #[error("{least} = {least_value} is above {most} = {most_value}")]
    MinimumAboveRate {
        /// The minimum's option.
        least: &'static str,
        /// Its value.
        least_value: u64,
        /// The rate's option.
        most: &'static str,
        /// Its value.
        most_value: u64,
    },
    /// Fewer bytes than one block.
    #[error("size = {size} bytes is below the smallest block size, {block} bytes")]
    SizeBelowBlock {
        /// The size.
        size: u64,
        /// The smallest block of the job.
        block: u64,
    },
    /// `zonemode=strided` does not say when a zone has had its turn.
    #[error("zonemode=strided needs a zonesize: the bytes to move in a zone before the next one")]
    ZonesWithoutSize,
    /// `zonesize` without zones.
    #[error("zonesize is of no use without zonemode=strided")]
    ZoneSizeWithoutZones,
    /// A file without jobs.
    #[error("the file has no job: a [section] that is not [global]")]
    NoJobs,
}

impl Problem {
    /// How to mend it, if that says more than the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Problem::UnknownOption { nearest: Some(nearest), .. } => {
                Some(format!("did you mean {nearest:?}?"))
            }
            Problem::NoWaitee { nearest: Some(nearest), .. } => {
                Some(format!("did you mean {nearest:?}?"))
            }
            Problem::OutsideSection { .. } => Some("write [global] above it".into()),
            Problem::Value {
                error: ValueError::NotOneOf { nearest: Some(nearest), .. }, ..
            } => Some(format!("did you mean {nearest:?}?")),
            Problem::Value { option, error: ValueError::Suffix { text, suffix, .. } }
                if ["bs", "blocksize"].contains(&&**option) && suffix.contains(['-', ':']) =>
            {
                Some(format!("a range is written bsrange={text}"))
            }
            _ => None,
        }
    }
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ValueError {
    /// An option that needs a value stands alone.
    #[error("it needs a value")]
    Missing,
    /// No number at all.
    #[error("{text:?} is not a number")]
    NotANumber {
        /// The text.
        text: String,
    },
    /// A sign where only positive numbers make sense.
    #[error("{text:?} is negative")]
    Negative {
        /// The text.
        text: String,
    },
    /// A point in a number; fio would take what stands before it for the whole.
    #[error("{text:?} is not a whole number: write it in a smaller unit")]
    Fraction {
        /// The text.
        text: String,
    },
    /// Arithmetic.
    #[error("{text:?} is arithmetic, which is not read: write the result")]
    Arithmetic {
        /// The text.
        text: String,
    },
    /// An unknown unit.
    #[error("{text:?} ends in {suffix:?}: allowed are {allowed}")]
    Suffix {
        /// The whole.
        text: String,
        /// Its end.
        suffix: String,
        /// The units.
        allowed: &'static str,
    },
    /// Over 64 bits.
    #[error("{text:?} is above {}", u64::MAX)]
    TooLarge {
        /// The text.
        text: String,
    },
    /// Outside the allowed numbers.
    #[error("{value} is outside {min} to {max}")]
    OutOfRange {
        /// The number.
        value: i128,
        /// Smallest allowed.
        min: i64,
        /// Largest allowed.
        max: u64,
    },
    /// None of the words allowed.
    #[error("{text:?} is none of {}", .allowed.join(", "))]
    NotOneOf {
        /// The word.
        text: String,
        /// The words.
        allowed: Vec<&'static str>,
        /// The nearest word, if any is near.
        nearest: Option<&'static str>,
    },
    /// More than reads, writes and trims.
    #[error("{count} values: at most 3 are allowed, for reads, writes and trims")]
    TooManyDirections {
        /// Their number.
        count: usize,
    },
    /// A list that is too long.
    #[error("{count} entries: at most {max} are allowed")]
    TooManyEntries {
        /// Their number.
        count: usize,
        /// Most allowed.
        max: usize,
    },
    /// Percentages of more than 100 in all.
    #[error("the percentages add up to {sum}: at most 100 are allowed")]
    Percentages {
        /// Their sum.
        sum: u64,
    },
    /// Percentages of all requests that are not 100 in all.
    #[error("the shares of the requests add up to {sum}, not to 100")]
    Accesses {
        /// Their sum.
        sum: u64,
    },
    /// `steadystate=iops` alone.
    #[error("it needs a limit: {criterion}:2, or {criterion}:0.5% for one in percent of the mean")]
    NoLimit {
        /// The criterion.
        criterion: String,
    },
    /// `pareto:1` and beyond, for which the distribution is not defined.
    #[error("pareto needs a power above 0 and below 1")]
    ParetoPower,
    /// Not a power of two where one is needed.
    #[error("{value} is not a power of two")]
    NotPowerOfTwo {
        /// The number.
        value: u64,
    },
    /// `zipf:1`, for which the distribution is not defined.
    #[error("zipf needs a theta other than 1")]
    ZipfOne,
    /// A value of fio that is not simulated.
    #[error("{text:?} is not simulated: {reason}")]
    NotSimulated {
        /// The value.
        text: String,
        /// The reason.
        reason: &'static str,
    },
}

impl fmt::Display for FioErrors {
    /// One error a line, `name:line:column: what; hint`; of a command line `argument: what; hint`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, FioError { place, problem }) in self.errors.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            let what = shortened(problem.to_string());
            write!(f, "{newline}{}: {what}", place.prefix(&self.name))?;
            if let Some(hint) = problem.hint() {
                write!(f, "; {hint}")?;
            }
        }
        if self.more > 0 {
            write!(f, "\n{}: and {} more", self.name, self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for FioErrors {}

/// Characters of an error that are shown: it may quote a whole file without an end of line.
const TEXT_MAX: usize = 500;

/// `text` without its middle, if it is long: a quotation stands in front, the problem behind.
fn shortened(text: String) -> String {
    let letters = text.chars().count();
    if letters <= TEXT_MAX {
        return text;
    }
    let half = TEXT_MAX / 2;
    let front = text.chars().take(half);
    front.chain(['…']).chain(text.chars().skip(letters - half)).collect()
}

/// Collects errors; when full, it only counts.
#[derive(Debug, Default)]
pub(super) struct Collector {
    errors: Vec<FioError>,
    more: usize,
}

impl Collector {
    /// Adds an error. Calls `problem` only if there is room, for a search for the nearest name is expensive.
    pub(super) fn add(&mut self, place: &Place, problem: impl FnOnce() -> Problem) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(FioError { place: place.clone(), problem: problem() });
        } else {
            self.more += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// `value` if there was no error.
    pub(super) fn finish<T>(mut self, name: &str, value: T) -> Result<T, FioErrors> {
        if self.errors.is_empty() {
            return Ok(value);
        }
        self.errors.sort_by_key(|error| error.place.key());
        Err(FioErrors { name: name.into(), errors: self.errors, more: self.more })
    }
}
