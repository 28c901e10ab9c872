//! Plan of a run: the command line and `govern.toml`, with the disks found.

use std::path::{Path, PathBuf};

use weir_config::{DeviceModel, GovernConfig, govern_settings};
use weir_govern::Settings;
use weir_govern::host::Rule;

use super::Args;
use super::device::{self, Disk};
use super::tree::Tree;
use crate::failure::Failure;

/// Settings where neither the command line nor the file has any.
const SETTINGS: Settings =
    Settings { watermark_permille: 900, mode: weir_govern::Mode::Proportional };

/// Everything that is to be governed.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) tree: Tree,
    pub(super) sysfs: PathBuf,
    pub(super) disks: Vec<PlannedDisk>,
}

/// A disk that is to be governed.
#[derive(Debug)]
pub(super) struct PlannedDisk {
    pub(super) disk: Disk,
    pub(super) settings: Settings,
    pub(super) model: Option<DeviceModel>,
    pub(super) rules: Vec<Rule>,
    /// Sections of `rules`.
    pub(super) sections: Vec<String>,
}

/// Reads the configuration and finds the disks.
///
/// # Errors
/// The configuration is wrong, or a disk or the tree of cgroups is not there.
pub(super) fn read(args: &Args) -> Result<Plan, Failure> {
    let config = args.config.as_deref().map(GovernConfig::from_file).transpose();
    let config = config.map_err(Failure::Config)?.unwrap_or_default();
    let mut asked: Vec<String> = args.devices.clone();
    if asked.is_empty() {
        asked = config.devices.iter().map(|device| device.path.clone()).collect();
    }
    if asked.is_empty() {
        return Err(Failure::wrong("no device is named").hint(
            "for example `weir govern /dev/sdb`, or [device.\"/dev/sdb\"] in a file for --config"
                .to_owned(),
        ));
    }
    if args.model.is_some() && asked.len() > 1 {
        return Err(Failure::wrong("--model is the model of one disk, and several are named")
            .hint(
                "[device.\"/dev/sdb\"] in a file for --config has a `model` of its own".to_owned(),
            ));
    }
    let tree = Tree::find(args.cgroup_root.as_deref())?;
    let mut disks: Vec<PlannedDisk> = Vec::new();
    for asked in &asked {
        let disk = device::find(asked, &args.sysfs)?;
        if disks.iter().any(|other| other.disk.number == disk.number) {
            return Err(Failure::wrong(format!("{asked}: {} is named twice", disk.name)));
        }
        disks.push(planned(args, &config, asked, disk)?);
    }
    Ok(Plan { tree, sysfs: args.sysfs.clone(), disks })
}

fn planned(
    args: &Args,
    config: &GovernConfig,
    asked: &str,
    disk: Disk,
) -> Result<PlannedDisk, Failure> {
    let section = config.devices.iter().find(|device| device.path == asked);
    let configured = section.and_then(|section| section.settings).or(config.settings);
    let mut settings = configured.unwrap_or(SETTINGS);
    if let Some(text) = &args.watermark {
        settings = govern_settings(text).map_err(|(message, hint)| {
            Failure::wrong(format!("--watermark: {message}")).hint(hint)
        })?;
    }
    if let Some(mode) = args.mode {
        settings.mode = mode.into();
    }
    let model = args.model.as_deref().or(section.and_then(|section| section.model.as_deref()));
    let model = model.map(|path: &Path| DeviceModel::from_file(path)).transpose();
    let rules = config.rules.iter().map(|rule| Rule {
        selector: rule.selector.clone(),
        limits: rule.limits(disk.number, &disk.name),
        settings: rule.settings,
    });
    Ok(PlannedDisk {
        rules: rules.collect(),
        sections: config.rules.iter().map(|rule| rule.name.clone()).collect(),
        model: model.map_err(Failure::Config)?,
        settings,
        disk,
    })
}
