//! One governed disk: samples, turns and writes.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;

use weir_govern::host::{Host, Observed, Planned, StateFile};
use weir_govern::kernel::{parse_disk_stat, print_limits};
use weir_govern::{IoMax, Settings};

use super::device::Disk;
use super::plan::PlannedDisk;
use super::restore::{self, boot_id, restore};
use super::state_dir::{Lock, StateDir};
use super::status::Status;
use super::tree::{Tree, TreeError, read};
use super::usage::Usage;
use super::walk::Walk;
use crate::failure::Failure;

/// Ticks between two looks at limits that others may have written.
const LOOK_TICKS: u64 = 10;
/// Ticks between two statuses.
const STATUS_TICKS: u64 = 20;
/// Walks of the tree begin at least so far apart.
const WALK_EVERY_NS: u64 = 2_000_000_000;
/// Cgroups that are warned of one by one.
const WARNINGS_MAX: usize = 10;

/// A governed disk.
pub(super) struct GovernedDisk {
    disk: Disk,
    settings: Settings,
    tree: Tree,
    host: Host,
    usage: Usage,
    stat: PathBuf,
    /// Where state goes; `None` writes nothing, and prints what would be written.
    states: Option<StateDir>,
    state: StateFile,
    has_stored: bool,
    _lock: Option<Lock>,
    walk: Walk,
    walked_at_ns: u64,
    ticks: u64,
    events: Events,
    status: Option<Status>,
    warned: BTreeSet<String>,
}

/// How often something has happened.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Events {
    pub(super) writes: u64,
    pub(super) refused: u64,
    pub(super) adopted: u64,
}

/// What a tick found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tick {
    Goes,
    /// The disk is not there any more.
    Gone,
}

impl GovernedDisk {
    /// Takes the disk's lock, puts back what a killed governor has left, and adopts what stands.
    ///
    /// # Errors
    /// Another process governs it, or the state cannot be read or written.
    pub(super) fn start(
        plan: PlannedDisk,
        tree: &Tree,
        sysfs: &std::path::Path,
        states: Option<StateDir>,
        now_ns: u64,
    ) -> Result<GovernedDisk, Failure> {
        let PlannedDisk { disk, settings, model, rules, .. } = plan;
        let number = disk.number;
        let mut lock = None;
        if let Some(states) = &states {
            states.make()?;
            lock = Some(states.lock(number, &disk.name)?);
            let restored = restore::restore_left(states, number)?;
            if restored.failed > 0 {
                return Err(Failure::failed(format!(
                    "limits on {} that a governor has left raised could not be put back",
                    disk.name
                )));
            }
            if restored.cgroups > 0 {
                tracing::warn!(device = %disk.name, "the last governor was killed: {}", restore::count(restored.cgroups));
            }
        }
        for note in &disk.notes {
            tracing::info!("{note}");
        }
        let root = tree.root().to_string_lossy().into_owned();
        let pid = std::process::id();
        let state = StateFile::new(pid, boot_id(), number.to_string(), root, tree.interface());
        let mut governed = GovernedDisk {
            host: Host::new(tree.interface(), settings, rules),
            usage: Usage::new(model.as_ref()),
            stat: sysfs.join(format!("dev/block/{number}/stat")),
            walk: Walk::new(tree),
            walked_at_ns: now_ns,
            tree: tree.clone(),
            disk,
            settings,
            states,
            state,
            has_stored: false,
            _lock: lock,
            ticks: 0,
            events: Events::default(),
            status: None,
            warned: BTreeSet::new(),
        };
        while !governed.walk.is_over() {
            governed.walk_on();
        }
        tracing::info!(
            device = %governed.disk.name, number = %number, interface = tree.interface().name(),
            cgroups = governed.host.cgroups().count(), watermark = settings.watermark_permille / 10,
            "governs",
        );
        Ok(governed)
    }

    pub(super) fn name(&self) -> &str {
        &self.disk.name
    }

    /// The last status.
    pub(super) fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    /// Samples, decides, and writes what is decided.
    ///
    /// # Errors
    /// State cannot be stored: nothing is written then.
    pub(super) fn tick(&mut self, now_ns: u64) -> Result<Tick, Failure> {
        self.walk_if_due(now_ns);
        let is_look = self.ticks.is_multiple_of(LOOK_TICKS);
        self.ticks += 1;
        let paths: Vec<String> = self.host.cgroups().map(|(path, _)| path.to_owned()).collect();
        for path in &paths {
            if !is_look || self.look(path) {
                self.sample(path);
            }
        }
        let stat = match read(&self.stat) {
            Ok(text) => parse_disk_stat(&text).map_err(|error| error.to_string()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Tick::Gone),
            Err(error) => Err(error.to_string()),
        };
        match stat {
            Ok(stat) => {
                let device = self.usage.sample(stat);
                let due = self.host.turn(now_ns, device);
                self.write(due)?;
            }
            Err(error) => self.warn_once(&self.stat.display().to_string(), &error),
        }
        if self.ticks.is_multiple_of(STATUS_TICKS) {
            self.tell_status(now_ns);
        }
        Ok(Tick::Goes)
    }

    /// Puts all limits back.
    ///
    /// # Errors
    /// Some cannot be.
    pub(super) fn end(self) -> Result<(), Failure> {
        let state = self.state.with(self.host.kept());
        let Some(states) = &self.states else { return Ok(()) };
        let restored = restore(&state, self.disk.number, false);
        let name = &self.disk.name;
        tracing::info!(device = %name, "{}", restore::count(restored.cgroups));
        if restored.failed > 0 {
            return Err(Failure::failed(format!(
                "limits of {} cgroups on {name} could not be put back",
                restored.failed
            ))
            .hint("`weir govern --restore` tries it again".to_owned()));
        }
        self.forget(states);
        Ok(())
    }

    /// The disk is gone, and its limits with it.
    pub(super) fn drop_gone(self) {
        tracing::warn!(device = %self.disk.name, "the device is gone");
        if let Some(states) = &self.states {
            self.forget(states);
        }
    }

    fn forget(&self, states: &StateDir) {
        if let Err(error) = states.remove(self.disk.number) {
            tracing::warn!(%error, "{}: a state that is over stays", states.path().display());
        }
    }

    fn walk_if_due(&mut self, now_ns: u64) {
        if !self.walk.is_over() {
            self.walk_on();
        } else if now_ns.saturating_sub(self.walked_at_ns) >= WALK_EVERY_NS {
            self.walk = Walk::new(&self.tree);
            self.walked_at_ns = now_ns;
            self.walk_on();
        }
    }

    fn walk_on(&mut self) {
        for path in self.walk.step(&self.tree) {
            // Governed ones are looked at more often than this.
            if self.host.cgroup(&path).is_none() {
                self.look(&path);
            }
        }
    }

    /// Reads the limits of a cgroup; whether it is governed now.
    fn look(&mut self, path: &str) -> bool {
        let stands = match self.tree.limits(path, self.disk.number) {
            Ok(stands) => stands,
            Err(error) => {
                self.lost(path, &error);
                return false;
            }
        };
        self.observe(path, stands) != Observed::Ungoverned
    }

    fn observe(&mut self, path: &str, stands: IoMax) -> Observed {
        let mut seen = stands;
        if self.states.is_none()
            && let Some(governed) = self.host.cgroup(path)
            && stands == governed.original
        {
            // Nothing is written: the kernel is taken to have what would be.
            seen = governed.stands;
        }
        let observed = self.host.observe(path, seen);
        let device = &self.disk.name;
        match observed {
            Observed::Adopted(limits) => {
                self.events.adopted += 1;
                let by = if stands.is_max() { "a rule" } else { "others" };
                tracing::info!(cgroup = path, %device, limits = %print_limits(limits), by, "adopted");
            }
            Observed::Released => {
                tracing::info!(cgroup = path, %device, "released: its limits are gone");
            }
            Observed::Full => self.warn_once(
                "full",
                &format!(
                    "more than {} cgroups have limits: the others are not governed",
                    weir_govern::host::GOVERNED_MAX
                ),
            ),
            Observed::Ungoverned | Observed::Unchanged => {}
        }
        observed
    }

    fn sample(&mut self, path: &str) {
        match self.tree.sample(path, self.disk.number) {
            Ok(sample) => self.host.note(path, sample),
            Err(error) => self.lost(path, &error),
        }
    }

    /// A cgroup cannot be read.
    fn lost(&mut self, path: &str, error: &TreeError) {
        let is_governed = self.host.cgroup(path).is_some();
        match error {
            TreeError::Gone if is_governed => {
                self.host.remove(path);
                tracing::info!(cgroup = path, device = %self.disk.name, "the cgroup is gone");
            }
            TreeError::Gone => {
                // It is there, and a rule wants it, but it has no files for limits.
                if self.host.is_selected(path) && self.tree.directory(path).is_dir() {
                    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                    let parent = self.tree.directory(parent).join("cgroup.subtree_control");
                    let message = format!(
                        "{path} is selected and has no limits for disks: the controller `io` is not in {}",
                        parent.display()
                    );
                    self.warn_once(path, &message);
                }
            }
            error => self.warn_once(path, &error.to_string()),
        }
    }

    fn write(&mut self, due: Vec<String>) -> Result<(), Failure> {
        let device = self.disk.number;
        let mut planned = Vec::new();
        for path in due {
            // Others may have written since the last look.
            if self.look(&path)
                && let Some(write) = self.host.begin(&path)
            {
                planned.push((path, write));
            }
        }
        if planned.is_empty() {
            return Ok(());
        }
        if let Some(states) = &self.states {
            let state = self.state.with(self.host.kept());
            states.write(device, &state, !self.has_stored).map_err(|error| {
                Failure::failed(format!("{}: {error}", states.path().display()))
                    .hint("limits are not raised without a record of what is put back".to_owned())
            })?;
            self.has_stored = true;
        }
        for (path, Planned { before, after }) in planned {
            if self.states.is_none() {
                super::show(&self.tree, &path, device, before, after);
                self.host.wrote(&path);
                continue;
            }
            match self.tree.write(&path, device, before, after) {
                Ok(()) => {
                    self.events.writes += 1;
                    self.host.wrote(&path);
                    tracing::debug!(cgroup = path, device = %self.disk.name, limits = %print_limits(after), "wrote");
                }
                Err(TreeError::Gone) if !self.stat.exists() => return Ok(()),
                Err(error) => {
                    self.events.refused += 1;
                    self.host.refused(&path);
                    self.lost(&path, &error);
                }
            }
        }
        Ok(())
    }

    fn tell_status(&mut self, now_ns: u64) {
        let status = Status::new(&self.disk, self.settings, &self.tree, &self.host, self.events);
        let status = status.with_rates(self.status.take(), now_ns);
        if let (Some(states), Ok(text)) = (&self.states, serde_json::to_string(&status))
            && let Err(error) = states.write_status(self.disk.number, &text)
        {
            self.warn_once("status", &format!("{}: {error}", states.path().display()));
        }
        self.status = Some(status);
    }

    fn warn_once(&mut self, about: &str, message: &str) {
        if self.warned.len() < WARNINGS_MAX && self.warned.insert(about.to_owned()) {
            tracing::warn!(device = %self.disk.name, "{message}");
        }
    }
}
