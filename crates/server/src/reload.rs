//! Reload of a configuration while the server runs: what can change at run time is applied, whole or not at all.

use tokio::sync::oneshot;
use weir_config::{CgroupConfig, Config, DeviceConfig};
use weir_engine::settings::{LowLatency, PrioClass};
use weir_engine::{LimiterKind, Limits, Path, Watermark, Weight};

use crate::command::{Applied, Command, SetError, Setting};
use crate::device::{DeviceHandle, Gone};

/// Why nothing of a configuration was applied.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// A device refused a setting.
    #[error("device `{device}`: cgroup {cgroup}: {error}")]
    Refused {
        /// The device.
        device: String,
        /// The cgroup.
        cgroup: Path,
        /// Why.
        error: SetError,
    },
    /// A device is not served any more.
    #[error("device `{0}`: {Gone}")]
    Gone(String),
}

/// Applies what `new` says of cgroups, schedulers and watermarks to the devices, which were started with, or had last
/// applied, `old`. Gives the number of settings that have changed. A cgroup that `new` does not list any more gets the
/// defaults, as one that was never listed. O(cgroups) for each device.
///
/// # Errors
/// The first refusal; then everything is as before.
pub async fn reload(
    devices: &[DeviceHandle],
    old: &Config,
    new: &Config,
) -> Result<usize, ReloadError> {
    let mut done: Vec<(&DeviceHandle, Applied)> = Vec::new();
    for device in devices {
        let Some(index) = new.devices.iter().position(|found| found.name == device.name) else {
            continue;
        };
        match apply(device, settings(old, new, index)).await {
            Ok(applied) => done.push((device, applied)),
            Err(error) => {
                for (device, applied) in done.into_iter().rev() {
                    take_back(device, applied).await;
                }
                return Err(error);
            }
        }
    }
    Ok(done.iter().map(|(_, applied)| applied.changed()).sum())
}

async fn apply(
    device: &DeviceHandle,
    settings: Vec<(Path, Setting)>,
) -> Result<Applied, ReloadError> {
    let gone = || ReloadError::Gone(device.name.clone());
    let (reply, answer) = oneshot::channel();
    device.send(Command::Apply { settings, reply }).map_err(|Gone| gone())?;
    answer.await.map_err(|_| gone())?.map_err(|(cgroup, error)| ReloadError::Refused {
        device: device.name.clone(),
        cgroup,
        error,
    })
}

/// A device that has gone meanwhile has nothing to be taken back.
async fn take_back(device: &DeviceHandle, applied: Applied) {
    let _ = apply(device, applied.before).await;
    for cgroup in applied.created.into_iter().rev() {
        let (reply, answer) = oneshot::channel();
        if device.send(Command::Remove { cgroup, reply }).is_ok() {
            drop(answer.await);
        }
    }
}

/// What `new` says of its device `index`, with everything that it leaves out at its default, parents first.
fn settings(old: &Config, new: &Config, index: usize) -> Vec<(Path, Setting)> {
    let DeviceConfig { watermark, engine, .. } = &new.devices[index];
    let root = Path::parse("/").expect("the root's path");
    let mut settings = vec![
        (root.clone(), Setting::Watermark(Some(*watermark))),
        (root.clone(), Setting::Depth(engine.depth)),
        (root.clone(), Setting::Bfq(weir_text::print_bfq(&engine.bfq))),
        (root, Setting::Scheduler(engine.scheduler)),
    ];
    for cgroup in &new.cgroups {
        let found = cgroup.limits.iter().find(|limits| limits.device == index);
        let none = Limits { limiter: cgroup.limiter, ..Limits::default() };
        let limits = found.map_or(none, |found| found.limits);
        let CgroupConfig { path, weight, prio_class, low_latency, watermark, .. } = cgroup;
        settings.extend(of_cgroup(path, *weight, *prio_class, *low_latency, *watermark, limits));
    }
    let is_listed = |path: &Path| new.cgroups.iter().any(|cgroup| cgroup.path == *path);
    for CgroupConfig { path, .. } in old.cgroups.iter().filter(|cgroup| !is_listed(&cgroup.path)) {
        let limits = Limits { limiter: LimiterKind::default(), ..Limits::default() };
        let (weight, prio_class) = (Weight::default(), PrioClass::default());
        settings.extend(of_cgroup(path, weight, prio_class, None, None, limits));
    }
    settings
}

fn of_cgroup(
    path: &Path,
    weight: Weight,
    prio_class: PrioClass,
    low_latency: Option<LowLatency>,
    watermark: Option<Watermark>,
    limits: Limits,
) -> [(Path, Setting); 5] {
    [
        Setting::Weight(weight),
        Setting::PrioClass(prio_class),
        Setting::LowLatency(low_latency),
        Setting::Watermark(watermark),
        Setting::Limits(limits),
    ]
    .map(|setting| (path.clone(), setting))
}

/// Where `new` differs from `running` in what only a restart changes, each as a key of the configuration.
pub fn needs_restart(running: &Config, new: &Config) -> Vec<String> {
    let (old_server, new_server) = (&running.server, &new.server);
    let server = [
        ("socket", old_server.socket != new_server.socket),
        ("socket_mode", old_server.socket_mode != new_server.socket_mode),
        ("listen", old_server.listen != new_server.listen),
        ("control", old_server.control != new_server.control),
        ("control_mode", old_server.control_mode != new_server.control_mode),
        ("control_group", old_server.control_group != new_server.control_group),
        ("control_read", old_server.control_read != new_server.control_read),
        ("control_read_mode", old_server.control_read_mode != new_server.control_read_mode),
        ("control_read_group", old_server.control_read_group != new_server.control_read_group),
        ("control_hosts", old_server.control_hosts != new_server.control_hosts),
        ("control_origins", old_server.control_origins != new_server.control_origins),
        ("max_connections", old_server.max_connections != new_server.max_connections),
        ("drain_time", old_server.drain_time != new_server.drain_time),
        ("exit_last", old_server.exit_last != new_server.exit_last),
    ];
    let changed = server.into_iter().filter(|(_, differs)| *differs);
    let mut keys: Vec<String> = changed.map(|(key, _)| format!("server.{key}")).collect();
    let names = |config: &Config| -> Vec<String> {
        config.devices.iter().map(|device| device.name.clone()).collect()
    };
    keys.extend(sets(&names(running), &names(new)).map(|name| format!("device.{name}")));
    for old in &running.devices {
        let Some(new) = new.devices.iter().find(|new| new.name == old.name) else { continue };
        let engine = weir_engine::Config {
            depth: new.engine.depth,
            scheduler: new.engine.scheduler,
            bfq: new.engine.bfq,
            ..old.engine
        };
        let parts = [
            ("path", old.backend != new.backend),
            ("read_only", old.read_only != new.read_only),
            ("cache", old.cache != new.cache),
            ("queue, model or price", engine != new.engine),
        ];
        let changed = parts.into_iter().filter(|(_, differs)| *differs);
        keys.extend(changed.map(|(key, _)| format!("device.{}.{key}", old.name)));
    }
    // Devices by name: another order of them is no change.
    let exports = |config: &Config| -> Vec<(String, String)> {
        let device = |index: usize| config.devices[index].name.as_str();
        let all = config.exports.iter();
        all.map(|export| {
            let rest = (&export.cgroup, export.read_only, export.range, &export.description);
            (export.name.clone(), format!("{} {rest:?}", device(export.device)))
        })
        .collect()
    };
    let (old, new) = (exports(running), exports(new));
    keys.extend(sets(&old, &new).map(|(name, _)| format!("export.{name:?}")));
    keys.dedup();
    keys
}

/// What is in one of the two and not in the other.
fn sets<'a, T: PartialEq>(old: &'a [T], new: &'a [T]) -> impl Iterator<Item = &'a T> {
    let gone = old.iter().filter(|entry| !new.contains(entry));
    gone.chain(new.iter().filter(|entry| !old.contains(entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: &str = r#"
        [device.a]
        path = "memory:1M"
        [device.b]
        path = "memory:1M"
        [cgroup."/vm1"]
        "io.max" = "a riops=100"
        [export.vm1]
        device = "a"
        cgroup = "/vm1"
    "#;

    fn read(text: &str) -> Config {
        Config::from_str("weir.toml", text).unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn what_only_a_restart_changes_is_named() {
        let running = read(RUNNING);
        for (from, to, expected) in [
            ("a riops=100", "a riops=200", &[][..]),
            (
                "path = \"memory:1M\"\n        [device.b]",
                "depth = 7\n path = \"memory:1M\"\n        [device.b]",
                &[],
            ),
            (
                "path = \"memory:1M\"\n        [device.b]",
                "path = \"memory:2M\"\n        [device.b]",
                &["device.a.path"],
            ),
            ("[device.b]", "queue = 99\n        [device.b]", &["device.a.queue, model or price"]),
            ("[device.b]", "[device.c]", &["device.b", "device.c"]),
            ("[export.vm1]", "[export.vm1]\n read_only = true", &["export.\"vm1\""]),
            ("[export.vm1]", "[export.vm2]", &["export.\"vm1\"", "export.\"vm2\""]),
            (
                "[device.a]",
                "[server]\n max_connections = 7\n drain_time = \"1s\"\n [device.a]",
                &["server.max_connections", "server.drain_time"],
            ),
        ] {
            assert!(RUNNING.contains(from), "{from}");
            let new = read(&RUNNING.replacen(from, to, 1));
            assert_eq!(needs_restart(&running, &new), expected, "{to}");
        }
    }

    #[test]
    fn a_cgroup_that_is_not_listed_any_more_gets_the_defaults() {
        let new = RUNNING.replace("/vm1", "/vm2");
        let settings = settings(&read(RUNNING), &read(&new), 0);
        let of = |cgroup: &str| {
            let mut found = settings.iter().filter(|(path, _)| path.as_str() == cgroup);
            let limits = found.find_map(|(_, setting)| match setting {
                Setting::Limits(limits) => Some(limits.max.to_string()),
                _ => None,
            });
            limits.expect("its limits are set")
        };
        assert!(of("/vm2").contains("riops=100"));
        assert_eq!(of("/vm1"), Limits::default().max.to_string());
    }
}
