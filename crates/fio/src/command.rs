//! Command lines of fio: `--name=x --rw=randread --bs=4k job.fio`.
//!
//! As in fio 3.33: options before the first `--name` are for all jobs, those of the files included; each `--name` begins a
//! job; a value follows `=` or is the next argument; one hyphen is as good as two. Flags have a value only after `=`.

use weir_units::nearest;

use super::table;

/// Options and jobs of a command line, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    pub(super) sections: Vec<CommandSection>,
    /// Names of the job files.
    pub files: Vec<String>,
    /// `--section`: only jobs of these names, or all.
    pub(super) only: Vec<String>,
    /// `--readonly`: no job may write.
    pub(super) is_readonly: bool,
    /// Options of fio itself without effect: name, reason, argument.
    pub(super) ignored: Vec<(&'static str, &'static str, String)>,
}

/// Options of one job, or of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandSection {
    /// `global` for options before the first job.
    pub(super) name: String,
    /// The argument that begins it.
    pub(super) argument: String,
    pub(super) options: Vec<CommandOption>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandOption {
    pub(super) key: String,
    pub(super) value: Option<String>,
    pub(super) argument: String,
}

/// Why a command line of fio cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// An option that needs a value is the last argument.
    #[error("{argument} needs a value")]
    NoValue {
        /// The argument.
        argument: String,
    },
    /// An option that makes fio do something else than run jobs.
    #[error("{argument}: {reason}")]
    Refused {
        /// The argument.
        argument: String,
        /// The reason.
        reason: &'static str,
    },
    /// An option that neither fio nor its jobs have.
    #[error("{argument}: fio has no such option")]
    Unknown {
        /// The argument.
        argument: String,
        /// The nearest option, if any is near.
        nearest: Option<&'static str>,
    },
    /// There is neither a job nor a file.
    #[error("the command line has no job")]
    NoJobs,
}

impl CommandError {
    /// How to mend it.
    pub fn hint(&self) -> Option<String> {
        match self {
            CommandError::Unknown { nearest, .. } => nearest.map(|near| format!("did you mean --{near}?")),
            CommandError::NoJobs => {
                Some("begin one with --name=NAME, or name a job file: -- --name=x --rw=randread --size=1g".into())
            }
            CommandError::NoValue { .. } | CommandError::Refused { .. } => None,
        }
    }
}

const OUTPUT: &str = "the report is chosen by flags before `--`: --format (fio-json is laid out as fio's) and --html";
const PROCESS: &str = "how fio runs on the host does not matter";
const ELSEWHERE: &str = "fio would run the jobs on other machines";
const NO_RUN: &str = "fio would run no job";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arity {
    Flag,
    Valued,
    /// Only after `=`.
    Optional,
}

enum Fate {
    Ignored(&'static str),
    Refused(&'static str),
    Section,
    ReadOnly,
}

const OWN: &[(&str, Arity, Fate)] = {
    use Arity::{Flag, Optional, Valued};
    use Fate::{Ignored, Refused};
    &[
        ("output", Valued, Ignored(OUTPUT)),
        ("output-format", Valued, Ignored(OUTPUT)),
        ("minimal", Flag, Ignored(OUTPUT)),
        ("append-terse", Flag, Ignored(OUTPUT)),
        ("terse-version", Valued, Ignored(OUTPUT)),
        ("eta", Valued, Ignored(OUTPUT)),
        ("eta-newline", Valued, Ignored(OUTPUT)),
        ("eta-interval", Valued, Ignored(OUTPUT)),
        ("status-interval", Valued, Ignored(OUTPUT)),
        ("bandwidth-log", Flag, Ignored(OUTPUT)),
        ("latency-log", Flag, Ignored(OUTPUT)),
        ("debug", Valued, Ignored(OUTPUT)),
        ("alloc-size", Valued, Ignored(PROCESS)),
        ("warnings-fatal", Flag, Ignored(PROCESS)),
        ("max-jobs", Valued, Ignored(PROCESS)),
        ("idle-prof", Valued, Ignored(PROCESS)),
        ("aux-path", Valued, Ignored(PROCESS)),
        ("trigger-file", Valued, Ignored(PROCESS)),
        ("trigger-timeout", Valued, Ignored(PROCESS)),
        ("trigger", Valued, Ignored(PROCESS)),
        ("trigger-remote", Valued, Ignored(PROCESS)),
        ("section", Valued, Fate::Section),
        ("readonly", Flag, Fate::ReadOnly),
        ("client", Optional, Refused(ELSEWHERE)),
        ("server", Optional, Refused(ELSEWHERE)),
        ("remote-config", Valued, Refused(ELSEWHERE)),
        ("daemonize", Valued, Refused(ELSEWHERE)),
        ("parse-only", Flag, Refused(NO_RUN)),
        ("showcmd", Flag, Refused(NO_RUN)),
        ("merge-blktrace-only", Flag, Refused(NO_RUN)),
        ("inflate-log", Valued, Refused(NO_RUN)),
        ("cmdhelp", Optional, Refused(NO_RUN)),
        ("enghelp", Optional, Refused(NO_RUN)),
        ("crctest", Optional, Refused(NO_RUN)),
        ("memcpytest", Optional, Refused(NO_RUN)),
        ("cpuclock-test", Flag, Refused(NO_RUN)),
        ("help", Flag, Refused(NO_RUN)),
        ("version", Flag, Refused(NO_RUN)),
    ]
};

/// Options of jobs that have no value, or one after `=`: `--cmdhelp=all` and `--enghelp` of fio 3.33.
const FLAGS: &[&str] = &[
    "bs_unaligned",
    "exitall",
    "exitall_on_error",
    "fixedbufs",
    "group_reporting",
    "hipri",
    "new_group",
    "norandommap",
    "refill_buffers",
    "registerfiles",
    "sqthread_poll",
    "stonewall",
    "thread",
    "time_based",
    "userspace_reap",
    "verify_only",
    "zero_buffers",
];

impl CommandLine {
    /// Reads the arguments, with or without `fio` as the first.
    ///
    /// # Errors
    /// [`CommandError`]: the first argument that cannot be read. [`super::parse_input`] checks options of jobs.
    pub fn read(arguments: &[String]) -> Result<CommandLine, CommandError> {
        let mut command = CommandLine::default();
        let is_program = |word: &&String| word.rsplit('/').next() == Some("fio");
        let skipped = usize::from(arguments.first().filter(is_program).is_some());
        let mut rest = arguments[skipped..].iter();
        while let Some(argument) = rest.next() {
            let Some(option) = argument.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                command.files.push(argument.clone());
                continue;
            };
            let option = option.strip_prefix('-').unwrap_or(option);
            if option.is_empty() {
                command.files.extend(rest.by_ref().cloned());
                break;
            }
            let (key, value) = match option.split_once('=') {
                Some((key, value)) => (key, Some(value.to_owned())),
                None => (option, None),
            };
            let own = OWN.iter().find(|(name, ..)| *name == key);
            let arity = match own {
                Some((_, arity, _)) => *arity,
                None if !is_job_option(key) => {
                    let names = OWN.iter().map(|(name, ..)| *name).chain(table::names());
                    return Err(CommandError::Unknown {
                        argument: argument.clone(),
                        nearest: nearest(key, names),
                    });
                }
                None if FLAGS.contains(&table::alias_of(key).unwrap_or(key)) => Arity::Flag,
                None => Arity::Valued,
            };
            let (value, argument) = match (value, arity) {
                (None, Arity::Valued) => {
                    let no_value = || CommandError::NoValue { argument: argument.clone() };
                    let value = rest.next().ok_or_else(no_value)?;
                    (Some(value.clone()), format!("{argument} {value}"))
                }
                (value, _) => (value, argument.clone()),
            };
            match own {
                Some((name, _, Fate::Ignored(reason))) => {
                    command.ignored.push((name, reason, argument));
                }
                Some((_, _, Fate::Refused(reason))) => {
                    return Err(CommandError::Refused { argument, reason });
                }
                Some((_, _, Fate::Section)) => command.only.extend(value),
                Some((_, _, Fate::ReadOnly)) => command.is_readonly = true,
                None => command.job_option(key, value, argument),
            }
        }
        if command.files.is_empty() && !command.sections.iter().any(|section| !section.is_global())
        {
            return Err(CommandError::NoJobs);
        }
        Ok(command)
    }

    fn job_option(&mut self, key: &str, value: Option<String>, argument: String) {
        if key == "name" {
            let name = value.unwrap_or_default();
            self.sections.push(CommandSection { name, argument, options: Vec::new() });
            return;
        }
        if self.sections.is_empty() {
            let name = "global".to_owned();
            let argument = argument.clone();
            self.sections.push(CommandSection { name, argument, options: Vec::new() });
        }
        let section = self.sections.last_mut().expect("there is one now");
        section.options.push(CommandOption { key: key.to_owned(), value, argument });
    }
}

impl CommandSection {
    fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

fn is_job_option(key: &str) -> bool {
    table::names().any(|name| name == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<CommandLine, String> {
        let arguments: Vec<String> = line.split_whitespace().map(Into::into).collect();
        CommandLine::read(&arguments).map_err(|error| match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        })
    }

    fn as_file(command: &CommandLine) -> String {
        let options = |section: &CommandSection| {
            let lines = section.options.iter().map(|option| match &option.value {
                Some(value) => format!(" {}={value}", option.key),
                None => format!(" {}", option.key),
            });
            lines.collect::<String>()
        };
        let sections = command.sections.iter();
        sections.map(|section| format!("[{}]{}", section.name, options(section))).collect()
    }

    #[test]
    fn options_before_the_first_name_are_for_all_jobs() {
        for (line, file) in [
            ("--name=x --rw=randread --bs=4k", "[x] rw=randread bs=4k"),
            (
                "fio --direct=1 --bs 4k --name a -rw=read --name b",
                "[global] direct=1 bs=4k[a] rw=read[b]",
            ),
            (
                "/usr/bin/fio --group_reporting --thread --name=a --time_based=1",
                "[global] group_reporting thread[a] time_based=1",
            ),
            ("--name=a --output out.json --output-format=json --eta=never --minimal", "[a]"),
            ("--name=a --bs=4k --name=global --bs=8k --name=b", "[a] bs=4k[global] bs=8k[b]"),
        ] {
            assert_eq!(read(line).map(|command| as_file(&command)), Ok(file.into()), "{line}");
        }
        let command =
            read("--runtime=5 one.fio --section=a --section b two.fio --readonly").unwrap();
        assert_eq!(
            (as_file(&command), command.files),
            ("[global] runtime=5".into(), vec!["one.fio".into(), "two.fio".into()])
        );
        assert_eq!((command.only, command.is_readonly), (vec!["a".into(), "b".into()], true));
        assert_eq!(read("--name=a -- --b.fio").unwrap().files, ["--b.fio"]);
    }

    #[test]
    fn an_unreadable_command_line_says_why() {
        for (line, error) in [
            ("--name=a --bs", "--bs needs a value"),
            (
                "--name=a --iodpeth=4",
                "--iodpeth=4: fio has no such option; did you mean --iodepth?",
            ),
            (
                "--name=a --output_format=json",
                "--output_format=json: fio has no such option; did you mean --output-format?",
            ),
            ("--client=host a.fio", "--client=host: fio would run the jobs on other machines"),
            ("--enghelp", "--enghelp: fio would run no job"),
            (
                "--rw=read",
                "the command line has no job; begin one with --name=NAME, or name a job file: -- --name=x --rw=randread --size=1g",
            ),
        ] {
            assert_eq!(read(line), Err(error.into()), "{line}");
        }
    }
}
