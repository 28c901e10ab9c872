//! Settings of a configuration, for each device, and what of it only a restart changes.

use std::collections::BTreeSet;

use weir_config::{CgroupConfig, Change, Config, DeviceConfig, Difference, TlsConfig, difference};
use weir_engine::settings::{LowLatency, PrioClass};
use weir_engine::{LimiterKind, Limits, Path, Watermark, Weight};

use crate::command::Setting;

/// What `new` says of its device `index`, with everything that it leaves out at its default, parents first. A cgroup that
/// only `old` lists gets the defaults. O(cgroups × log cgroups).
pub(super) fn settings(old: &Config, new: &Config, index: usize) -> Vec<(Path, Setting)> {
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
        let CgroupConfig { path, prio_class, low_latency, watermark, .. } = cgroup;
        let weight = cgroup.weight_on(index);
        settings.extend(of_cgroup(path, weight, *prio_class, *low_latency, *watermark, limits));
    }
    for path in unlisted(old, new) {
        let limits = Limits { limiter: LimiterKind::default(), ..Limits::default() };
        let (weight, prio_class) = (Weight::default(), PrioClass::default());
        settings.extend(of_cgroup(path, weight, prio_class, None, None, limits));
    }
    settings
}

/// Cgroups that `old` lists and `new` does not, parents first.
pub(super) fn unlisted<'c>(old: &'c Config, new: &Config) -> Vec<&'c Path> {
    let listed: BTreeSet<&Path> = new.cgroups.iter().map(|cgroup| &cgroup.path).collect();
    let paths = old.cgroups.iter().map(|cgroup| &cgroup.path);
    paths.filter(|path| !listed.contains(path)).collect()
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

/// Keys in which `new` differs from what runs once it has been `applied`: only a restart changes them.
pub(super) fn needs_restart(applied: &Config, new: &Config) -> Vec<String> {
    let mut keys: Vec<String> = difference(applied, new)
        .into_iter()
        .map(|Difference { section, name, change }| {
            let section = section.name();
            let place = if name.is_empty() { section.into() } else { format!("{section}.{name}") };
            match change {
                Change::Changed { key, .. } => format!("{place}.{key}"),
                Change::Added { .. } | Change::Removed { .. } => place,
            }
        })
        .collect();
    keys.dedup();
    keys
}

/// A device that runs as `old` when `new` has been applied.
pub(super) fn kept(old: &DeviceConfig, new: &DeviceConfig) -> DeviceConfig {
    let engine = weir_engine::Config {
        depth: new.engine.depth,
        scheduler: new.engine.scheduler,
        bfq: new.engine.bfq,
        ..old.engine
    };
    DeviceConfig { watermark: new.watermark, engine, ..old.clone() }
}

/// `[tls]` as it is when `new` has been applied: with the threads that there are, and never gone where connections are
/// encrypted.
pub(super) fn kept_tls(old: &Config, new: &Config) -> Option<TlsConfig> {
    match (&old.tls, &new.tls) {
        (Some(old), Some(new)) => Some(TlsConfig { threads: old.threads, ..new.clone() }),
        (Some(_), None) if old.server.uses_tls() => old.tls.clone(),
        (_, new) => new.clone(),
    }
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
            ("[device.b]", "queue = 99\n        [device.b]", &["device.a.queue"]),
            ("[device.b]", "[device.c]", &[]),
            ("[device.b]", "[tls]\ncertificate='c'\nkey='k'\n[peer.a]\nuid = 7\n[device.b]", &[]),
            ("[export.vm1]", "[export.vm2]", &[]),
            (
                "[device.a]",
                "[server]\n max_connections = 7\n drain_time = \"1s\"\n [device.a]",
                &[
                    "server.drain_time",
                    "server.max_connections",
                    "server.max_connections_per_client",
                ],
            ),
        ] {
            assert!(RUNNING.contains(from), "{from}");
            let new = read(&RUNNING.replacen(from, to, 1));
            let applied = super::super::effective(&running, &new);
            assert_eq!(needs_restart(&applied, &new), expected, "{to}");
        }
    }

    #[test]
    fn a_cgroup_keeps_its_weight_on_one_device() {
        let new = read(
            &RUNNING.replace("\"io.max\"", "\"io.weight\" = [\"a 300\", \"200\"]\n \"io.max\""),
        );
        let weight = |device: usize| {
            let settings = settings(&read(RUNNING), &new, device);
            settings.into_iter().find_map(|(_, setting)| match setting {
                Setting::Weight(weight) => Some(weight.get()),
                _ => None,
            })
        };
        assert_eq!((weight(0), weight(1)), (Some(300), Some(200)));
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
