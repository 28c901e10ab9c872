//! Flags of lab runs: the work, and the settings.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use weir_config::{Config, DeviceModel};
use weir_fio as fio;
use weir_lab::builder::{BuildError, ScenarioBuilder, SettingError, Source};
use weir_lab::scenario::{Scenario, ScenarioError, Trace};
use weir_lab::scenario_file::{self, SCENARIOS};
use weir_trace::{OpenError, Reader};

use crate::failure::Failure;

/// Settings of a run; each is also a key of `--set`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Settings {
    /// The disk: a model, and what differs from it ("hdd7200", "null,latency=10us"; see `weir lab list`), or a file of
    /// `weir calibrate`
    #[arg(long, value_name = "SPEC|FILE.toml", help_heading = "Settings")]
    disk: Option<String>,
    /// Limits of a cgroup, or of all jobs together that name none: "/vm1 rbps=4M", "riops=100"; may be given several times
    #[arg(long, value_name = "[/CGROUP] LIMITS", help_heading = "Settings")]
    max: Vec<String>,
    /// How much may go at once after a pause: "riops=8", "/vm1 wbps=4M"
    #[arg(long, value_name = "[/CGROUP] AMOUNTS", help_heading = "Settings")]
    burst: Vec<String>,
    /// The rate inside a burst
    #[arg(long, value_name = "[/CGROUP] RATES", help_heading = "Settings")]
    peak: Vec<String>,
    /// Share among siblings that wait, 1 to 10000: "/vm1 200"
    #[arg(long, value_name = "[/CGROUP] N", help_heading = "Settings")]
    weight: Vec<String>,
    /// The class of a cgroup with the scheduler bfq: no-change, promote-to-rt, restrict-to-be or idle
    #[arg(long, value_name = "[/CGROUP] CLASS", help_heading = "Settings")]
    prio_class: Vec<String>,
    /// Whose weight the scheduler bfq may raise: auto, never or interactive
    #[arg(long, value_name = "[/CGROUP] POLICY", help_heading = "Settings")]
    low_latency: Vec<String>,
    /// The disk's utilisation from which on limits bind: "90", "/vm1 90 mode=gate"
    #[arg(long, value_name = "[/CGROUP] PERCENT", help_heading = "Settings")]
    watermark: Vec<String>,
    /// Limits of a kernel, raised while the disk is used less, as `weir govern` does: "90", "/vm1 50"
    #[arg(long, value_name = "[/CGROUP] PERCENT", help_heading = "Settings")]
    govern: Vec<String>,
    /// With `--govern`: what the kernel counts and how limits are written, as cgroups of version 1 or 2
    #[arg(long, value_name = "N", help_heading = "Settings")]
    cgroup_version: Option<String>,
    /// How limits are enforced: pace, slice, token or leaky
    #[arg(long, value_name = "LIMITER", help_heading = "Settings")]
    limiter: Option<String>,
    /// With `--limiter slice`: as this version of Linux does it ("4.18", "6.12")
    #[arg(long, value_name = "VERSION", help_heading = "Settings")]
    kernel: Option<String>,
    /// Scheduler of the disk: none or bfq
    #[arg(long, value_name = "NAME", help_heading = "Settings")]
    scheduler: Option<String>,
    /// How the scheduler bfq does: "slice_idle=0 merge_window=off"
    #[arg(long, value_name = "SETTINGS", help_heading = "Settings")]
    bfq: Option<String>,
    /// Requests that may be at the disk at once
    #[arg(long, value_name = "N", help_heading = "Settings")]
    depth: Option<String>,
    /// A setting that counts from some virtual time on: "5s max=/vm1 rbps=4M", "5s bfq.slice_idle=0", "5s scheduler=none";
    /// may be given several times
    #[arg(long, value_name = "TIME KEY=VALUE", help_heading = "Settings")]
    at: Vec<String>,
    /// The cgroup of jobs that name none, "/main" unless given; "per-job": each name has its own
    #[arg(long, value_name = "/CGROUP|per-job", help_heading = "Settings")]
    home: Option<String>,
    /// What all random choices come from
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Settings")]
    seed: Option<String>,
    /// End after so much virtual time
    #[arg(long, value_name = "TIME", help_heading = "Settings")]
    stop_after: Option<String>,
    /// A job of which each loop, or pass of `time_based`, is made by a new child process; may be given for several
    #[arg(long, value_name = "JOB", help_heading = "Settings")]
    forks: Vec<String>,
    /// The page cache, 1 GiB unless given; dirty limits follow it as they do in Linux
    #[arg(long, value_name = "SIZE", help_heading = "Settings")]
    memory: Option<String>,
    /// Dirty bytes of one cgroup at which its writers wait; 0, the default, for no such limit
    #[arg(long, value_name = "SIZE", help_heading = "Settings")]
    dirty_each: Option<String>,
    /// Requests that the page cache writes back at a time
    #[arg(long, value_name = "N", help_heading = "Settings")]
    flusher_depth: Option<String>,
    /// What each request takes besides engine and disk: sockets, wake-ups; of several times one by chance
    #[arg(long, value_name = "TIME[,TIME]", help_heading = "Settings")]
    way: Option<String>,
    /// The part of that which is for one request at a time, as in a server of one thread
    #[arg(long, value_name = "TIME", help_heading = "Settings")]
    way_each: Option<String>,
    /// A pause of a process ends so much later than asked
    #[arg(long, value_name = "TIME", help_heading = "Settings")]
    pause_late: Option<String>,
    /// One pause in ten, by chance, is longer by this
    #[arg(long, value_name = "TIME", help_heading = "Settings")]
    hiccup: Option<String>,
    /// A limiter's timer rings so much later than asked
    #[arg(long, value_name = "TIME", help_heading = "Settings")]
    timer_late: Option<String>,
    /// Cgroups, limits, depth and emulated disk of a server's configuration
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    config: Option<PathBuf>,
    /// Which of the configuration's devices, or of the recording's
    #[arg(long, value_name = "NAME", help_heading = "Settings")]
    device: Option<String>,
}

impl Settings {
    /// As keys and values, `home` not among them.
    fn pairs(&self) -> Vec<(&'static str, &str)> {
        fn one<'a>(
            key: &'static str,
            value: &'a Option<String>,
        ) -> Option<(&'static str, &'a str)> {
            value.as_deref().map(|value| (key, value))
        }
        let ones = [
            one("disk", &self.disk),
            one("limiter", &self.limiter),
            one("kernel", &self.kernel),
            one("cgroup-version", &self.cgroup_version),
            one("scheduler", &self.scheduler),
            one("bfq", &self.bfq),
            one("depth", &self.depth),
            one("seed", &self.seed),
            one("stop-after", &self.stop_after),
            one("memory", &self.memory),
            one("dirty-each", &self.dirty_each),
            one("flusher-depth", &self.flusher_depth),
            one("way", &self.way),
            one("way-each", &self.way_each),
            one("pause-late", &self.pause_late),
            one("hiccup", &self.hiccup),
            one("timer-late", &self.timer_late),
        ];
        let lists = [
            ("max", &self.max),
            ("burst", &self.burst),
            ("peak", &self.peak),
            ("weight", &self.weight),
            ("prio-class", &self.prio_class),
            ("low-latency", &self.low_latency),
            ("watermark", &self.watermark),
            ("govern", &self.govern),
            ("forks", &self.forks),
            ("at", &self.at),
        ];
        let lists = lists
            .into_iter()
            .flat_map(|(key, values)| values.iter().map(move |value| (key, value.as_str())));
        ones.into_iter().flatten().chain(lists).collect()
    }

    pub(super) fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Keys and values for recorded arrivals, which have their own cgroups and configuration.
    pub(super) fn of_recorded(
        &self,
        more: &[(String, String)],
    ) -> Result<Vec<(String, String)>, Failure> {
        for (flag, value) in [("--config", self.config.is_some()), ("--home", self.home.is_some())]
        {
            if value {
                return Err(Failure::wrong(format!("{flag} says nothing of recorded arrivals")));
            }
        }
        let own = self.pairs().into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        Ok(own.chain(more.iter().cloned()).collect())
    }

    /// Applies the flags, and then `more` keys and values.
    pub(super) fn apply(
        &self,
        builder: &mut ScenarioBuilder,
        more: &[(String, String)],
    ) -> Result<(), Failure> {
        if self.device.is_some() && self.config.is_none() {
            return Err(Failure::wrong("--device names one of --config, or of --from"));
        }
        if let Some(path) = &self.config {
            let config = Config::plan_from_file(path).map_err(Failure::Config)?;
            builder.set_config(&config, self.device.as_deref()).map_err(wrong)?;
        }
        // First, for limits without a path are its.
        if let Some(home) = &self.home {
            builder.set("home", home).map_err(|error| of_flag("home", home, error))?;
        }
        for (key, value) in more.iter().filter(|(key, _)| key == "home") {
            builder.set(key, value).map_err(wrong)?;
        }
        let is_model = |key: &str, value: &str| key == "disk" && value.ends_with(".toml");
        for (key, value) in self.pairs() {
            if is_model(key, value) {
                let model = DeviceModel::from_file(Path::new(value)).map_err(Failure::Config)?;
                builder.set_model(&model);
                continue;
            }
            builder.set(key, value).map_err(|error| of_flag(key, value, error))?;
        }
        for (key, value) in more.iter().filter(|(key, _)| key != "home") {
            builder.set(key, value).map_err(wrong)?;
        }
        Ok(())
    }
}

fn of_flag(key: &str, value: &str, error: SettingError) -> Failure {
    let SettingError { reason, hint, .. } = error;
    Failure::wrong(format!("--{key} {value:?}: {reason}")).hint(hint)
}

/// `KEY=VALUE`, as given to a flag.
pub(super) fn pair(flag: &str, text: &str) -> Result<(String, String), Failure> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().into(), value.into())),
        _ => Err(Failure::wrong(format!("{flag} {text:?} is no KEY=VALUE"))
            .hint(format!("for example {flag} depth=8"))),
    }
}

/// Whether settings give the format of a trace.
pub(super) fn tells_a_trace<V>(settings: &[(String, V)]) -> bool {
    settings.iter().any(|(key, _)| key == "trace.format")
}

/// Builder for a run: by name or file, a command line of fio after `--`, or a job file and both.
///
/// A file is a trace in any case where the settings say so.
pub(super) fn open_either(
    what: Option<&str>,
    fio: &[String],
    is_told_a_trace: bool,
) -> Result<ScenarioBuilder, Failure> {
    match what {
        Some(what) if fio.is_empty() => open(what, is_told_a_trace),
        what => open_command(what, fio),
    }
}

/// Builder for a command line of fio. A job file named before `--` comes first.
fn open_command(what: Option<&str>, fio: &[String]) -> Result<ScenarioBuilder, Failure> {
    let is_program = |word: &&String| word.rsplit('/').next() == Some("fio");
    let skipped = usize::from(fio.first().filter(is_program).is_some());
    let words = what.map(str::to_owned).into_iter().chain(fio[skipped..].iter().cloned());
    let words: Vec<String> = words.collect();
    let command = fio::CommandLine::read(&words).map_err(|error| {
        let hint = error.hint();
        Failure::wrong(format!("fio command line: {error}")).hint(hint)
    })?;
    let mut files = Vec::new();
    for name in &command.files {
        let path = Path::new(name);
        let is_scenario = SCENARIOS.iter().any(|(known, _)| known == name) && !path.exists();
        if is_scenario || is_trace(path) || path.extension().is_some_and(|end| end == "toml") {
            let reason =
                format!("{name} is no job file, which alone can stand on a command line of fio");
            let hint = "a scenario or a trace is run by itself, without `--`".to_owned();
            return Err(Failure::wrong(reason).hint(hint));
        }
        files.push(fio::JobText::load(name.as_str(), read_job(name)?, &mut read_included));
    }
    // Long command lines are shortened.
    const TITLE_MAX: usize = 200;
    let mut title = format!("fio {}", words.join(" "));
    if let Some((end, _)) = title.char_indices().nth(TITLE_MAX) {
        title.truncate(end);
        title.push('…');
    }
    let input = fio::Input { command, files, env: environment() };
    Ok(ScenarioBuilder::new(title, Source::Input(input)))
}

/// Values of `${VARIABLE}`s of a job file.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Builder for a named scenario, a scenario file (`.toml`), a trace (`.gz`, `.csv`, ...), or a fio job file.
fn open(what: &str, is_told_a_trace: bool) -> Result<ScenarioBuilder, Failure> {
    let env = environment();
    let path = Path::new(what);
    if let Some((name, text)) = SCENARIOS.iter().find(|(name, _)| *name == what)
        && !path.exists()
    {
        return from_file(name, text, &env);
    }
    if is_told_a_trace || is_trace(path) {
        let name = path.file_name().map_or_else(|| what.into(), |name| name.to_string_lossy());
        return Ok(ScenarioBuilder::new(name, Source::Trace(Trace::new(path))));
    }
    let bytes = read_job(what)?;
    if path.extension().is_some_and(|extension| extension == "toml") {
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::wrong(format!("{what}: not a text in UTF-8")))?;
        return from_file(what, &text, &env);
    }
    if !may_be_jobs(&bytes) {
        return Err(neither(what));
    }
    let name = path.file_name().map_or_else(|| what.into(), |name| name.to_string_lossy());
    let text = fio::JobText::load(what, bytes, &mut read_included);
    Ok(ScenarioBuilder::new(name, Source::Input(fio::Input::of_file(text, env))))
}

/// The bytes of a job file or a scenario.
fn read_job(what: &str) -> Result<Vec<u8>, Failure> {
    let path = Path::new(what);
    let bytes = match std::fs::metadata(path) {
        Ok(meta) if meta.len() > fio::FILE_BYTES_MAX as u64 => return Err(neither(what)),
        _ => read_bounded(path).map_err(|error| {
            let names = SCENARIOS.iter().map(|(name, _)| *name);
            let hint = match weir_units::nearest(what, names) {
                Some(near) => format!("did you mean the scenario `{near}`?"),
                None => "name a fio job file, a scenario file, or one of `weir lab list`".into(),
            };
            Failure::wrong(format!("{what}: {error}")).hint(hint)
        })?,
    };
    if bytes.len() > fio::FILE_BYTES_MAX {
        let reason = format!("{what}: over {} bytes are no job file", fio::FILE_BYTES_MAX);
        let hint = "a trace is read from a file, not from a pipe".to_owned();
        return Err(Failure::wrong(reason).hint(hint));
    }
    Ok(bytes)
}

/// An included file: as in fio, of the working directory, or else beside the file that includes it.
fn read_included(path: &str, including: &str) -> Result<(String, Vec<u8>), String> {
    let here = Path::new(path).to_owned();
    let beside = Path::new(including).parent().map(|folder| folder.join(path));
    let found = [Some(here), beside].into_iter().flatten().find(|path| path.exists());
    let found = found.ok_or_else(|| {
        format!("there is no such file, neither in the working directory nor beside {including}")
    })?;
    let name = found.display().to_string();
    if !found.is_file() {
        return Err(format!("{name} is no regular file"));
    }
    let bytes = read_bounded(&found).map_err(|error| format!("{name}: {error}"))?;
    Ok((name, bytes))
}

/// Reads at most a byte beyond the largest job file: a pipe or a device has no length.
fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(fio::FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a file is a trace: by its name, compressed or with one of the endings that traces have, or else by its looks.
/// An archive is one too: the error says how to unpack it.
fn is_trace(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let is_named = ["gz", "zst", "csv", "trace", "iolog", "blkparse"].contains(&ending);
    // Nothing is taken from a pipe to look at it.
    is_named && path.exists()
        || path.is_file()
            && matches!(Reader::open(path, None), Ok(_) | Err(OpenError::Foreign { .. }))
}

/// Whether a text may be meant for a job file: it has a section, or begins with an option that has a value.
fn may_be_jobs(text: &[u8]) -> bool {
    let lines = || text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let is_telling =
        |line: &&[u8]| !line.is_empty() && !line.starts_with(b"#") && !line.starts_with(b";");
    if text.contains(&0) {
        return false;
    }
    let has_section = lines().any(|line| line.starts_with(b"[") || line.starts_with(b"include "));
    has_section || lines().find(is_telling).is_none_or(|line| line.contains(&b'='))
}

/// The error for a file that is no job file, no trace and no scenario.
fn neither(what: &str) -> Failure {
    let begins = match Reader::open(Path::new(what), None) {
        Err(OpenError::UnknownFormat { first_line, .. }) => {
            format!("; it begins with {first_line:?}")
        }
        _ => String::new(),
    };
    let reason =
        format!("{what}: neither a fio job file, which has a [section], nor a known trace{begins}");
    let names = weir_trace::Format::names();
    Failure::wrong(reason).hint(format!(
        "known traces: {names}; others by columns: --set {}",
        weir_lab::scenario::COLUMNS
    ))
}

fn from_file(
    name: &str,
    text: &str,
    env: &BTreeMap<String, String>,
) -> Result<ScenarioBuilder, Failure> {
    let file = scenario_file::read(name, text, env).map_err(|error| {
        let hint = match &error {
            scenario_file::ScenarioFileError::Setting { error, .. } => error.hint.clone(),
            _ => None,
        };
        Failure::wrong(&error).hint(hint)
    })?;
    Ok(file.builder)
}

/// Builds the scenario.
pub(super) fn scenario(builder: &ScenarioBuilder) -> Result<Scenario, Failure> {
    builder.build().map_err(|error| match error {
        BuildError::Setting(error) => wrong(error),
        BuildError::Jobs(errors) => Failure::wrong(errors.to_string().trim_end()),
    })
}

pub(super) fn wrong(error: SettingError) -> Failure {
    let hint = error.hint.clone();
    Failure::wrong(error).hint(hint)
}

pub(super) fn refused(error: ScenarioError) -> Failure {
    let hint = error.hint();
    Failure::wrong(error).hint(hint)
}
