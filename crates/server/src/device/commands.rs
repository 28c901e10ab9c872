//! Carrying out what the control thread asks.

use std::num::NonZeroU32;

use weir_engine::{CgroupId, Change, ChangeError, Dimension, Direction, Instant, Limits, Path};
use weir_recording::RecordedEngine;

use weir_nbd::ExportId;

use super::reactor::{DeviceIo, Reactor};
use crate::command::{Applied, Command, SetError, Setting};

impl Reactor {
    pub(super) fn handle_command(&mut self, now: Instant, command: Command) {
        // A dropped reply means that the answer is not waited for any more.
        match command {
            Command::Status { reply } => {
                self.io.status_waiters.push(reply);
                self.io.is_busy = true;
            }
            Command::Settings { cgroup, reply } => drop(reply.send(self.settings(now, &cgroup))),
            Command::Apply { settings, reply } => drop(reply.send(self.apply(now, settings))),
            Command::Remove { cgroup, is_trial: true, reply } => {
                drop(reply.send(self.find_removable(&cgroup).map(drop)));
            }
            Command::Remove { cgroup, is_trial: false, reply } => {
                drop(reply.send(self.remove(now, &cgroup)));
            }
            Command::Move { cgroup, parent, reply } => {
                drop(reply.send(self.move_below(now, &cgroup, &parent)));
            }
            Command::Ping { reply } => drop(reply.send(())),
            Command::Greet(greeting) => self.greet(now, greeting),
            Command::Adopt(arrived) => self.adopt(now, *arrived),
            Command::ServeExport(place) => self.serve_export(now, place),
            Command::CloseExport(export) => self.close_export(now, export),
            Command::Grow { reply } => drop(reply.send(self.grow())),
            Command::Record(Some(recorder)) => self.engine.attach(now, *recorder),
            Command::Record(None) => self.engine.detach(),
            Command::Drain => self.start_draining(now),
        }
    }

    /// Takes note that the device has grown.
    fn grow(&mut self) -> Result<u64, &'static str> {
        let DeviceIo { storage, ring, cache, .. } = &mut self.io;
        if cache.is_some()
            && !storage.disk.info().size.is_multiple_of(weir_cache::writeback::BLOCK_BYTES)
        {
            return Err(
                "its write-back cache holds its last block in part; it grows after a restart",
            );
        }
        let size = ring.grow(&mut storage.disk);
        if let Some(cache) = cache {
            cache.grow(size);
        }
        Ok(size)
    }

    /// Ends an export of this device, and its connections. O(connections).
    fn close_export(&mut self, now: Instant, export: ExportId) {
        self.io.export_paths.remove(export);
        let bound = self.io.connections.iter().filter(|(_, connection)| {
            connection.socket.is_some()
                && connection.bound.is_some_and(|bound| bound.export == export)
        });
        let bound: Vec<usize> = bound.map(|(key, _)| key).collect();
        for key in bound {
            self.drop_client(now, key, "its export has been removed");
        }
    }

    /// Changes a setting. What a limit on writes has kept dirty is written when that is gone (spec/throttle P21).
    fn change(&mut self, now: Instant, path: &Path, setting: Setting) -> Result<(), SetError> {
        self.check_room(path)?;
        let was_limited = self.limits_writes(path);
        set(&mut self.engine, now, path, setting)?;
        if was_limited && !self.limits_writes(path) {
            self.release_dirty(now, self.find(path)?);
        }
        self.bound_dirty(now);
        Ok(())
    }

    /// Changes all of `settings`, or none.
    fn apply(
        &mut self,
        now: Instant,
        settings: Vec<(Path, Setting)>,
    ) -> Result<Applied, (Path, SetError)> {
        let mut applied = Applied::default();
        for (path, setting) in settings {
            let before = self.present(&path, &setting);
            if before.as_ref() == Some(&setting) {
                continue;
            }
            let created = self.missing(&path);
            let changed = self.change(now, &path, setting);
            // Also where it is refused a cgroup may have come into being.
            applied.created.extend(created.into_iter().filter(|path| self.find(path).is_ok()));
            match (changed, before) {
                (Ok(()), Some(before)) if !applied.created.contains(&path) => {
                    applied.before.insert(0, (path, before));
                }
                (Ok(()), _) => applied.set_in_created += 1,
                (Err(error), _) => {
                    self.take_back(now, applied);
                    return Err((path, error));
                }
            }
        }
        Ok(applied)
    }

    /// What was allowed before is allowed again, so nothing of it is refused.
    fn take_back(&mut self, now: Instant, applied: Applied) {
        for (path, setting) in applied.before {
            let _ = self.change(now, &path, setting);
        }
        for path in applied.created.iter().rev() {
            let _ = self.remove(now, path);
        }
    }

    /// What is set now where `setting` would be; `None` where there is no such cgroup.
    fn present(&self, path: &Path, setting: &Setting) -> Option<Setting> {
        let engine = &self.engine;
        let cgroup = engine.find_cgroup(path)?;
        Some(match setting {
            Setting::Weight(_) => Setting::Weight(engine.weight(cgroup)?),
            Setting::PrioClass(_) => Setting::PrioClass(engine.prio_class(cgroup)?),
            Setting::LowLatency(_) => Setting::LowLatency(engine.low_latency(cgroup)),
            Setting::Watermark(_) => Setting::Watermark(engine.watermark(cgroup)),
            Setting::Depth(_) => Setting::Depth(NonZeroU32::new(engine.device().depth)?),
            Setting::Scheduler(_) => Setting::Scheduler(engine.device().scheduler),
            Setting::Bfq(_) => Setting::Bfq(weir_text::print_bfq(&engine.bfq_settings())),
            Setting::Limits(_) | Setting::Limiter(_) | Setting::Text { .. } => {
                Setting::Limits(engine.limits(cgroup)?)
            }
        })
    }

    /// The cgroups on the way to `path`, it included, that are not there; parents first.
    fn missing(&self, path: &Path) -> Vec<Path> {
        let text = path.as_str();
        let ends = text.match_indices('/').map(|(at, _)| at).skip(1).chain([text.len()]);
        let all = ends.filter_map(|end| Path::parse(&text[..end]).ok());
        all.filter(|path| self.find(path).is_err()).collect()
    }

    /// Whether the cgroup at `path` itself has a limit on writes.
    fn limits_writes(&self, path: &Path) -> bool {
        let limits = self.engine.find_cgroup(path).and_then(|cgroup| self.engine.limits(cgroup));
        let mut writes = Dimension::ALL.into_iter().filter(|of| of.limits(Direction::Write));
        limits.is_some_and(|limits| writes.any(|of| limits.max.get(of).is_some()))
    }

    /// Sections for peers name their cgroup by its path, too, in every device.
    fn check_peers(&self, path: &Path) -> Result<(), SetError> {
        match self.io.registry.tables().peers.peer_below(path) {
            Some(peer) if path.names().next().is_some() => {
                Err(SetError::InUseByPeer(path.clone(), peer.to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn remove(&mut self, now: Instant, path: &Path) -> Result<(), SetError> {
        let cgroup = self.find_removable(path)?;
        // Clients that are left of an export that led there go on.
        for child in self.engine.children(cgroup) {
            self.engine.reconfigure(now, Change::Remove { cgroup: child })?;
        }
        Ok(self.engine.reconfigure(now, Change::Remove { cgroup })?)
    }

    /// The cgroup at `path`, if it may be removed: nothing is below it but limits of clients, and no export leads there.
    fn find_removable(&self, path: &Path) -> Result<CgroupId, SetError> {
        check_not_of_client(path)?;
        let cgroup = self.find(path)?;
        if cgroup == self.engine.root() {
            return Err(ChangeError::Root.into());
        }
        // An export names its cgroup by its path, which must go on leading there.
        if let Some(export) = self.io.export_paths.export_below(path) {
            return Err(SetError::InUse(path.clone(), export.to_owned()));
        }
        self.check_peers(path)?;
        let limits = self.io.clients.limits_below(cgroup);
        let children = self.engine.children(cgroup);
        if !children.iter().all(|child| limits.contains(child)) {
            return Err(ChangeError::HasChildren { children: children.len() as u32 }.into());
        }
        Ok(cgroup)
    }

    /// Whether the cgroup at `path` is there or may be created. O(depth × log cgroups).
    fn check_room(&self, path: &Path) -> Result<(), SetError> {
        check_not_of_client(path)?;
        let missing = self.engine.missing_cgroups(path);
        let (there, max) = (self.engine.cgroup_count() as usize, self.io.cgroups_max);
        if missing > 0 && there + missing > max {
            return Err(SetError::TooManyCgroups { path: path.clone(), missing, there, max });
        }
        check_depth(path.names().count())
    }

    /// Exports go on leading to their cgroup, wherever it is.
    fn move_below(&mut self, now: Instant, path: &Path, below: &Path) -> Result<(), SetError> {
        check_not_of_client(path)?;
        check_not_of_client(below)?;
        let (cgroup, parent) = (self.find(path)?, self.find(below)?);
        let levels = self.engine.levels_below(cgroup) as usize;
        check_depth(below.names().count() + 1 + levels)?;
        self.check_peers(path)?;
        self.engine.reconfigure(now, Change::Move { cgroup, parent })?;
        self.io.export_paths.moved(path, below);
        self.bound_dirty(now);
        Ok(())
    }

    fn find(&self, path: &Path) -> Result<CgroupId, SetError> {
        self.engine.find_cgroup(path).ok_or_else(|| SetError::UnknownCgroup(path.clone()))
    }
}

/// Cgroups of clients are made and set as `client_max` of their export says.
fn check_not_of_client(path: &Path) -> Result<(), SetError> {
    match weir_config::is_of_client(path.as_str()) {
        true => Err(SetError::OfClient(path.clone())),
        false => Ok(()),
    }
}

/// Whether a cgroup may be as deep as `depth` names.
fn check_depth(depth: usize) -> Result<(), SetError> {
    match weir_config::CGROUP_DEPTH_MAX {
        max if depth > max => Err(SetError::TooDeep { depth, max }),
        _ => Ok(()),
    }
}

/// Changes one setting of the cgroup at `path`, which comes into being if it does not exist. A refused change leaves
/// everything as it was, a new cgroup without limits aside.
pub(super) fn set(
    engine: &mut RecordedEngine,
    now: Instant,
    path: &Path,
    setting: Setting,
) -> Result<(), SetError> {
    let cgroup = engine.ensure_cgroup(path)?;
    let old = engine.limits(cgroup).unwrap_or_default();
    let change = match setting {
        Setting::Weight(weight) => Change::SetWeight { cgroup, weight },
        Setting::PrioClass(prio_class) => Change::SetPrioClass { cgroup, prio_class },
        Setting::LowLatency(low_latency) => Change::SetLowLatency { cgroup, low_latency },
        Setting::Watermark(watermark) => Change::SetWatermark { cgroup, watermark },
        Setting::Depth(depth) => Change::SetDepth(depth),
        Setting::Scheduler(kind) => Change::SetScheduler(kind),
        Setting::Bfq(text) => Change::SetBfq(weir_text::parse_bfq(&text, engine.bfq_settings())?),
        setting => Change::SetLimits { cgroup, limits: with(old, setting)? },
    };
    Ok(engine.reconfigure(now, change)?)
}

/// `old` with one setting replaced.
fn with(old: Limits, setting: Setting) -> Result<Limits, SetError> {
    use weir_text::{LimitKey, parse_limits};
    Ok(match setting {
        Setting::Limits(limits) => limits,
        Setting::Limiter(limiter) => Limits { limiter, ..old },
        Setting::Text { key: LimitKey::Max, text } => {
            without_orphans(Limits { max: parse_limits(LimitKey::Max, &text, old.max)?, ..old })
        }
        Setting::Text { key: LimitKey::Burst, text } => {
            Limits { burst: parse_limits(LimitKey::Burst, &text, old.burst)?, ..old }
        }
        Setting::Text { key: LimitKey::Peak, text } => {
            Limits { peak: parse_limits(LimitKey::Peak, &text, old.peak)?, ..old }
        }
        Setting::Weight(_)
        | Setting::PrioClass(_)
        | Setting::LowLatency(_)
        | Setting::Watermark(_)
        | Setting::Depth(_)
        | Setting::Scheduler(_)
        | Setting::Bfq(_) => unreachable!("not limits"),
    })
}

/// A limit that is lifted takes its burst and peak with it: alone they would mean nothing.
fn without_orphans(mut limits: Limits) -> Limits {
    for dimension in Dimension::ALL {
        if limits.max.get(dimension).is_none() {
            limits.burst.set(dimension, None);
            limits.peak.set(dimension, None);
        }
    }
    limits
}
