//! Resolution of sections to jobs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use weir_units::nearest;

use super::JOBS_MAX;
use super::apply::apply;
use super::error::{Collector, FioErrors, Place, Problem};
use super::input::{Input, JobText};
use super::lines::{Entry, Section, sections};
use super::options::Options;
use super::table::{self, Fate, Ignored};
use super::workload::{Amount, Files, Mix, PerDirection};

/// A valid job file.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFile {
    /// All jobs, clones one by one, in the file's order. At least one.
    pub jobs: Vec<Job>,
    /// Options without effect, each once, by first place.
    pub ignored: Vec<Ignored>,
}

/// One process of a job file.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its section's name, or the option `name`. Not unique: two sections may share one, and clones do.
    pub name: Arc<str>,
    /// Number of the clone, from 0.
    pub clone: u32,
    /// Jobs of a stage start together, when all of the stage before have ended. From 0.
    pub stage: u32,
    /// Reporting group, from 0.
    pub group: u32,
    /// Range of [`JobFile::jobs`] that must have ended before it starts; empty without `wait_for`.
    pub wait_for: Range<usize>,
    /// Line of its section's name, from 1; 0 for a job of a command line.
    pub line: usize,
    /// Its options, shared by its clones.
    pub options: Arc<Options>,
    /// Keys and values of its own section, as written, for reports.
    pub said: Arc<[(String, String)]>,
}

impl Job {
    /// Start of its region in a file of `file_bytes`: `offset`, and `offset_increment` for each clone before it.
    /// Percentages are rounded up to `offset_align` or the smallest block. Saturates.
    pub fn offset(&self, file_bytes: u64) -> u64 {
        let options = &self.options;
        let align = self.offset_unit();
        let bytes = |amount: Amount, times: u64| {
            let bytes = amount.of(file_bytes).saturating_mul(times);
            match amount {
                Amount::Percent(_) => bytes.checked_next_multiple_of(align).unwrap_or(u64::MAX),
                Amount::Bytes(_) => bytes,
            }
        };
        bytes(options.offset, 1)
            .saturating_add(bytes(options.offset_increment, u64::from(self.clone)))
    }

    /// Bytes of a file that has room for `size` bytes behind [`Job::offset`], which grows with the file if it is in
    /// percent; without that room if it is 100 %. Saturates.
    pub fn bytes_around(&self, size: u64) -> u64 {
        let Options { offset, offset_increment, .. } = *self.options;
        let percent = |amount, times: u64| match amount {
            Amount::Percent(percent) => u64::from(percent).saturating_mul(times),
            Amount::Bytes(_) => 0,
        };
        let before =
            percent(offset, 1).saturating_add(percent(offset_increment, self.clone.into()));
        let fixed = size.saturating_add(self.offset(0));
        if before == 0 || before >= 100 {
            return fixed;
        }
        let whole = |behind: u64| {
            let whole = (u128::from(behind) * 100).div_ceil(u128::from(100 - before));
            u64::try_from(whole).unwrap_or(u64::MAX)
        };
        let bytes = whole(fixed);
        // Each percentage is rounded up, by less than its unit.
        let short = self.offset(bytes).saturating_add(size).saturating_sub(bytes);
        if short == 0 {
            bytes
        } else {
            whole(fixed.saturating_add(self.offset_unit().saturating_mul(2)))
        }
    }

    /// Unit to which an offset in percent is rounded up.
    fn offset_unit(&self) -> u64 {
        let options = &self.options;
        options.offset_align.unwrap_or_else(|| options.block_min()).max(1)
    }

    /// Its files: those of `filename`, or its own.
    pub fn files(&self) -> Files {
        match &self.options.filename {
            Some(names) => Files::Named(split_names(names).into()),
            None => Files::Made {
                format: self.options.filename_format.clone(),
                count: self.options.nr_files,
            },
        }
    }

    /// The name of its file number `index` (from 0), without `directory`; None beyond the last.
    pub fn file_name(&self, index: u32) -> Option<String> {
        match self.files() {
            Files::Named(names) => names.get(index as usize).cloned(),
            Files::Made { format, count } if index < count => Some(
                format
                    .replace("$jobname", &self.name)
                    .replace("$jobnum", &self.clone.to_string())
                    .replace("$filenum", &index.to_string()),
            ),
            Files::Made { .. } => None,
        }
    }
}

/// Splits `filename` at colons; `\:` is a colon of a name.
fn split_names(names: &str) -> Vec<String> {
    let mut split = vec![String::new()];
    let mut letters = names.chars().peekable();
    while let Some(letter) = letters.next() {
        let name = split.last_mut().expect("never empty");
        match letter {
            '\\' if letters.peek() == Some(&':') => name.extend(letters.next()),
            ':' => split.push(String::new()),
            letter => name.push(letter),
        }
    }
    split.retain(|name| !name.is_empty());
    split
}

/// Reads the job file `text`. `name` is for messages only; `env` has the values of `${VARIABLE}`s.
///
/// Time and memory are proportional to the text with its variables and the number of jobs: at most
/// [`super::FILE_BYTES_MAX`], [`super::VALUE_BYTES_MAX`] a value, and [`super::JOBS_MAX`].
///
/// # Errors
/// [`FioErrors`]: all errors of the file.
pub fn parse(
    name: &str,
    text: &[u8],
    env: &BTreeMap<String, String>,
) -> Result<JobFile, FioErrors> {
    parse_with(name, text, env, &[])
}

/// As [`parse`], with options `besides` that override those of every section: pairs of key and value. Their errors
/// have the section's place; the file's own value for such an option is no error then, even if it is invalid or not
/// simulated.
///
/// # Errors
/// [`FioErrors`]: all errors of the file.
pub fn parse_with(
    name: &str,
    text: &[u8],
    env: &BTreeMap<String, String>,
    besides: &[(String, String)],
) -> Result<JobFile, FioErrors> {
    let text = JobText::alone(name, text);
    parse_input(&Input::of_file(text, env.clone()), besides)
}

/// As [`parse_with`], of a command line and several files, with those that they include.
///
/// # Errors
/// [`FioErrors`]: all errors of the input.
pub fn parse_input(input: &Input, besides: &[(String, String)]) -> Result<JobFile, FioErrors> {
    let mut errors = Collector::default();
    let sections = sections(input, &mut errors);
    let command = &input.command;
    let mut reader =
        Reader { errors, besides, is_readonly: command.is_readonly, ..Reader::default() };
    for section in &sections {
        if section.is_global()
            || command.only.is_empty()
            || command.only.iter().any(|name| name == section.name)
        {
            reader.section(section);
        }
    }
    for name in &command.only {
        if !sections.iter().any(|section| section.name == name && !section.is_global()) {
            reader.errors.add(&Place::top(), || Problem::NoSection { name: name.clone() });
        }
    }
    // A refused section may be the only one; its error is enough.
    if reader.named == 0 {
        if reader.errors.is_empty() {
            reader.errors.add(&Place::top(), || Problem::NoJobs);
        }
    } else if reader.total > JOBS_MAX as u64 {
        reader.jobs.clear();
    }
    for (option, reason, argument) in &command.ignored {
        let place = Place { file: Some(argument.as_str().into()), line: 0, column: 0, order: 0 };
        reader.ignore(option, reason, &place);
    }
    reader.ignored.sort_by_key(|ignored| ignored.place.key());
    reader.errors.finish(input.name(), JobFile { jobs: reader.jobs, ignored: reader.ignored })
}

/// An option of `besides` as if it stood in the section.
fn beside<'a>((key, value): &'a (String, String), place: &Place) -> Entry<'a> {
    let [key_place, value_place] = [place.clone(), place.clone()];
    Entry { key, key_place, value: Some(value.clone()), value_place }
}

#[derive(Default)]
struct Reader<'a> {
    errors: Collector,
    /// Options of every job besides its section's.
    besides: &'a [(String, String)],
    /// `--readonly`.
    is_readonly: bool,
    /// Of the `[global]`s so far.
    globals: Options,
    jobs: Vec<Job>,
    ignored: Vec<Ignored>,
    /// Job sections so far, and their jobs, those refused included.
    named: usize,
    total: u64,
    /// Sections of each name: the jobs of the first, and their number.
    names: BTreeMap<Arc<str>, (Range<usize>, usize)>,
    stage: u32,
    group: u32,
    /// Whether the stage or group has jobs: a stonewall on the first job of all starts nothing.
    begun: bool,
}

impl Reader<'_> {
    fn section(&mut self, section: &Section<'_>) {
        let global = section.is_global();
        let mut options = self.globals.clone();
        let besides = if global { &[][..] } else { self.besides };
        let besides: Vec<_> = besides.iter().map(|pair| beside(pair, &section.place)).collect();
        let entries = section.entries.iter().map(|entry| (entry, self.is_replaced(entry.key)));
        let entries: Vec<_> = entries.chain(besides.iter().map(|entry| (entry, false))).collect();
        // `kb_base` first: suffixes depend on it.
        for pass in [true, false] {
            for (entry, is_replaced) in &entries {
                if (entry.key == "kb_base") == pass {
                    self.option(&mut options, entry, *is_replaced);
                }
            }
        }
        if global {
            // A name set here has no effect, in fio too.
            options.name = None;
            self.globals = options;
        } else {
            self.job(section, options);
        }
    }

    fn is_replaced(&self, key: &str) -> bool {
        let main = |key| table::alias_of(key).unwrap_or(key);
        self.besides.iter().any(|(given, _)| main(given.as_str()) == main(key))
    }

    fn option(&mut self, options: &mut Options, entry: &Entry<'_>, is_replaced: bool) {
        let key = table::alias_of(entry.key).unwrap_or(entry.key);
        let value = entry.value.as_deref();
        match apply(options, key, value) {
            Some(Ok(())) => {}
            Some(Err(_)) if is_replaced => {}
            Some(Err(error)) => self
                .errors
                .add(&entry.value_place, || Problem::Value { option: entry.key.into(), error }),
            None => match table::fate(key, value) {
                Fate::Ignored(option, reason) => self.ignore(option, reason, &entry.key_place),
                Fate::Refused(..) if is_replaced => {}
                Fate::Refused(option, reason) => {
                    self.errors.add(&entry.key_place, || Problem::NotSimulated { option, reason });
                }
                Fate::Unknown => self.errors.add(&entry.key_place, || Problem::UnknownOption {
                    option: entry.key.into(),
                    nearest: nearest(entry.key, table::names()),
                }),
            },
        }
    }

    fn ignore(&mut self, option: &'static str, reason: &'static str, place: &Place) {
        match self.ignored.iter_mut().find(|ignored| ignored.option == option) {
            Some(ignored) => ignored.times += 1,
            None => self.ignored.push(Ignored { option, reason, place: place.clone(), times: 1 }),
        }
    }

    fn job(&mut self, section: &Section<'_>, mut options: Options) {
        options.settle();
        // As in fio, job files run one after the other.
        options.stonewall |= section.is_after_file;
        if self.is_readonly && options.pattern.mix != Mix::Read {
            self.errors.add(&section.place, || Problem::ReadOnly);
        }
        self.check(section, &options);
        let wait_for = self.waitee(section, &options);
        if self.begun && (options.stonewall || options.new_group) {
            self.group += 1;
        }
        if self.begun && options.stonewall {
            self.stage += 1;
        }
        self.begun = true;

        let within = self.total <= JOBS_MAX as u64;
        self.named += 1;
        self.total += u64::from(options.numjobs);
        let first = self.jobs.len();
        let name: Arc<str> = options.name.clone().unwrap_or_else(|| section.name.into());
        if self.total > JOBS_MAX as u64 {
            // Reported once; no job is made beyond it.
            if within {
                let jobs = self.total;
                self.errors.add(&section.place, || Problem::TooManyJobs { jobs });
            }
        } else {
            let name = name.clone();
            let options = Arc::new(options);
            let said: Arc<[(String, String)]> = section
                .entries
                .iter()
                .map(|entry| (entry.key.to_owned(), entry.value.clone().unwrap_or_default()))
                .collect();
            self.jobs.extend((0..options.numjobs).map(|clone| Job {
                name: name.clone(),
                clone,
                stage: self.stage,
                group: self.group,
                wait_for: wait_for.clone(),
                line: section.place.line,
                options: options.clone(),
                said: said.clone(),
            }));
        }
        let made = first..self.jobs.len();
        self.names.entry(name).or_insert((made, 0)).1 += 1;
    }

    fn waitee(&mut self, section: &Section<'_>, options: &Options) -> Range<usize> {
        let Some(name) = options.wait_for.as_deref() else { return 0..0 };
        let place = section
            .entries
            .iter()
            .rev()
            .find(|entry| entry.key == "wait_for")
            .map_or(&section.place, |entry| &entry.value_place);
        match self.names.get(name) {
            Some((jobs, 1)) => return jobs.clone(),
            Some(&(_, sections)) => {
                self.errors.add(place, || Problem::ManyWaitees { name: name.into(), sections });
            }
            None => self.errors.add(place, || Problem::NoWaitee {
                name: name.into(),
                // A bounded search: a file may have very many jobs, and each may wait for one that is not there.
                nearest: nearest(name, self.names.keys().take(1000).map(|name| &**name))
                    .map(Into::into),
            }),
        }
        0..0
    }

    fn check(&mut self, section: &Section<'_>, options: &Options) {
        let place = &section.place;
        let is_set = |rates: &PerDirection<Option<u64>>| rates.iter().any(Option::is_some);
        if is_set(&options.rate) && is_set(&options.rate_iops) {
            self.errors.add(place, || Problem::Exclusive { first: "rate", second: "rate_iops" });
        }
        for (least, least_values, most, most_values) in [
            ("rate_min", &options.rate_min, "rate", &options.rate),
            ("rate_iops_min", &options.rate_iops_min, "rate_iops", &options.rate_iops),
        ] {
            let above = least_values.iter().zip(most_values.iter()).find_map(|pair| match pair {
                (Some(least), Some(most)) if least > most => Some((*least, *most)),
                _ => None,
            });
            if let Some((least_value, most_value)) = above {
                self.errors.add(place, || Problem::MinimumAboveRate {
                    least,
                    least_value,
                    most,
                    most_value,
                });
            }
        }
        // If the mode is invalid, or given in `besides`, its sizes are not checked.
        let is_other = |entry: &Entry<'_>| {
            entry.key == "zonemode" && entry.value.as_deref().is_some_and(|mode| mode != "none")
        };
        let is_unclear = self.is_replaced("zonemode") || section.entries.iter().any(is_other);
        match options.zone_size {
            None if options.is_strided => self.errors.add(place, || Problem::ZonesWithoutSize),
            Some(_) if !options.is_strided && !is_unclear => {
                self.errors.add(place, || Problem::ZoneSizeWithoutZones);
            }
            _ => {}
        }
        let makes_requests = options.read_iolog.is_none() && options.file_size.is_none();
        if let Some(Amount::Bytes(size)) = options.size
            && makes_requests
            && size < options.block_min()
        {
            let block = options.block_min();
            self.errors.add(place, || Problem::SizeBelowBlock { size, block });
        }
    }
}
