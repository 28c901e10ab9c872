//! Plan of an import, before it is printed: devices, cgroups with their limits, and notes.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use weir_engine::{Dimension, Limits};
use weir_units::{clip, hidden_character};

use crate::error::{At, ImportError, ImportErrorKind};
use crate::names::{self, Taken};

/// Most devices: as many as a server may have.
const DEVICES_MAX: usize = 256;
/// Most cgroups: as many as a server has without another `max_cgroups`.
const CGROUPS_MAX: usize = 10_000;
/// Most limits, weights and notes together. What YAML repeats by anchors counts each time.
const SETTINGS_MAX: usize = 100_000;

/// Longest path that Linux has.
const PATH_MAX: usize = 4096;

/// What is imported.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) devices: Vec<Device>,
    pub(crate) cgroups: Vec<Cgroup>,
    /// About all of it.
    pub(crate) notes: Vec<String>,
    names: Taken,
    /// Index of each cgroup, by its path.
    paths: BTreeMap<String, usize>,
    settings: usize,
}

pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) iops_size: Option<u64>,
    pub(crate) is_read_only: bool,
    pub(crate) notes: Vec<String>,
}

pub(crate) struct Cgroup {
    /// Begins with a slash.
    pub(crate) path: String,
    pub(crate) weight: Option<u16>,
    /// By index of the device.
    pub(crate) devices: BTreeMap<usize, OnDevice>,
    pub(crate) notes: Vec<String>,
}

/// What a cgroup may do on one device.
#[derive(Default)]
pub(crate) struct OnDevice {
    pub(crate) limits: Limits,
    pub(crate) weight: Option<u16>,
}

impl Plan {
    /// The device of `path`, which gets the name `name` or one like it where it is new.
    pub(crate) fn device(&mut self, path: &str, name: &str, at: At) -> Result<usize, ImportError> {
        if let Some(index) = self.devices.iter().position(|device| device.path == path) {
            return Ok(index);
        }
        let is_special = ["memory:", "emulated:"].iter().any(|prefix| path.starts_with(prefix));
        if path.trim().is_empty()
            || is_special
            || path.len() > PATH_MAX
            || hidden_character(path).is_some()
        {
            return Err(at.error(ImportErrorKind::Path { path: clip(path) }));
        }
        at.bounded(self.devices.len(), DEVICES_MAX, "devices")?;
        let name = self.names.take(&names::device(name));
        let (path, notes) = (path.to_owned(), Vec::new());
        self.devices.push(Device { name, path, iops_size: None, is_read_only: false, notes });
        Ok(self.devices.len() - 1)
    }

    /// The device of `path`, called as the last part of it.
    pub(crate) fn device_at(&mut self, path: &str, at: At) -> Result<usize, ImportError> {
        self.device(path, path.rsplit('/').next().unwrap_or_default(), at)
    }

    /// The cgroup with the path of these names.
    pub(crate) fn cgroup(&mut self, names: &[&str], at: At) -> Result<usize, ImportError> {
        let path: String = names.iter().map(|name| format!("/{}", names::cgroup(name))).collect();
        if let Some(index) = self.paths.get(&path) {
            return Ok(*index);
        }
        at.bounded(self.cgroups.len(), CGROUPS_MAX, "cgroups")?;
        // Most that a path may have.
        at.bounded(names.len(), 65, "names in a path")?;
        self.paths.insert(path.clone(), self.cgroups.len());
        let (devices, notes) = (BTreeMap::new(), Vec::new());
        self.cgroups.push(Cgroup { path, weight: None, devices, notes });
        Ok(self.cgroups.len() - 1)
    }

    /// What `cgroup` may do on `device`.
    pub(crate) fn on(
        &mut self,
        cgroup: usize,
        device: usize,
        at: At,
    ) -> Result<&mut OnDevice, ImportError> {
        self.count(at)?;
        Ok(self.cgroups[cgroup].devices.entry(device).or_default())
    }

    /// Sets a rate; `None` is no limit. One that cannot bind, or would stop everything, is none, and noted.
    pub(crate) fn limit(
        &mut self,
        cgroup: usize,
        device: usize,
        dimension: Dimension,
        value: Option<u64>,
        at: At,
    ) -> Result<(), ImportError> {
        let rate = value.and_then(NonZeroU64::new);
        let rate = rate.filter(|rate| rate.get() <= dimension.largest());
        if let (Some(value), None) = (value, rate) {
            let why = if value == 0 {
                "Weir has no limit of 0, which would stop everything"
            } else {
                "it is too large to limit anything"
            };
            let text = format!("{} of {value} is left out: {why}", dimension.key());
            self.note_on(cgroup, at, text)?;
        }
        self.on(cgroup, device, at)?.limits.max.set(dimension, rate);
        Ok(())
    }

    /// Sets a weight, on one device or all; 1 to 10000, anything else is noted.
    pub(crate) fn weigh(
        &mut self,
        cgroup: usize,
        device: Option<usize>,
        weight: u64,
        at: At,
    ) -> Result<(), ImportError> {
        let Some(weight) =
            u16::try_from(weight).ok().filter(|weight| (1..=10_000).contains(weight))
        else {
            let text = format!("a weight of {weight} is left out: weights are 1 to 10000");
            return self.note_on(cgroup, at, text);
        };
        match device {
            Some(device) => self.on(cgroup, device, at)?.weight = Some(weight),
            None => {
                self.count(at)?;
                self.cgroups[cgroup].weight = Some(weight);
            }
        }
        Ok(())
    }

    /// A comment on `cgroup`: something without an equivalent, or with another meaning.
    pub(crate) fn note_on(
        &mut self,
        cgroup: usize,
        at: At,
        text: String,
    ) -> Result<(), ImportError> {
        self.count(at)?;
        self.cgroups[cgroup].notes.push(format!("line {}: {text}", at.line));
        Ok(())
    }

    /// A comment on everything.
    pub(crate) fn note(&mut self, at: At, text: String) -> Result<(), ImportError> {
        self.count(at)?;
        self.notes.push(format!("line {}: {text}", at.line));
        Ok(())
    }

    fn count(&mut self, at: At) -> Result<(), ImportError> {
        at.bounded(self.settings, SETTINGS_MAX, "limits, weights and notes")?;
        self.settings += 1;
        Ok(())
    }
}

impl At {
    fn bounded(self, count: usize, most: usize, what: &'static str) -> Result<(), ImportError> {
        if count < most { Ok(()) } else { Err(self.error(ImportErrorKind::TooMany { what, most })) }
    }
}
