//! Tenants of the demo.

use super::job::Job;

/// Reads a second that every tenant may do.
pub(super) const LIMIT: u32 = 100;
/// The seed's job: one read of 4 KiB at a time, 4 ms of thinking after each.
pub(super) const POLITE: Job =
    Job { block: 4096, queue_depth: 1, think_ns: 4_000_000, hiccup_ns: 2_000_000 };
/// A backup that wants all it can get.
pub(super) const GREEDY: Job = Job { block: 4096, queue_depth: 32, think_ns: 0, hiccup_ns: 0 };

/// One of the four that do the same job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tenant {
    /// Export and cgroup.
    pub(super) name: &'static str,
    /// Its name in the table.
    pub(super) title: &'static str,
    /// How the limit is enforced.
    pub(super) limiter: &'static str,
}

/// The four, in the order of the story.
///
/// Before and after the fix as on the machine of the seed, on which the kernel had 1000 ticks a second and, for an
/// SSD, slices of 20 ms; today's kernels have slices of 100 ms, and 250 ticks as distributions build them.
pub(super) const TENANTS: [Tenant; 4] = [
    Tenant {
        name: "before",
        title: "Linux 4.18, before the fix",
        limiter: "slice:4.18,hz=1000,slice=20ms",
    },
    Tenant {
        name: "after",
        title: "Linux 4.19, after it",
        limiter: "slice:4.19,hz=1000,slice=20ms",
    },
    Tenant { name: "today", title: "Linux 6.12, today", limiter: "slice:6.12,hz=250,slice=100ms" },
    Tenant { name: "weir", title: "Weir", limiter: "pace" },
];

/// The polite and the greedy client that share Weir's limit at the end.
pub(super) const WEB: &str = "/weir/web";
pub(super) const BACKUP: &str = "/weir/backup";

/// The server's configuration; `@` is its directory.
pub(super) fn config() -> String {
    let mut text = "\
        [server]\n\
        socket = \"@/nbd.sock\"\n\
        control = \"@/control.sock\"\n\
        [device.disk]\n\
        path = \"emulated:null,latency=10us,size=4G\"\n\
        [cgroup.\"/weir/web\"]\n\
        [cgroup.\"/weir/backup\"]\n\
        [export.backup]\n\
        device = \"disk\"\n\
        cgroup = \"/weir/backup\"\n"
        .to_owned();
    for Tenant { name, limiter, .. } in TENANTS {
        let cgroup = if name == "weir" { WEB.into() } else { format!("/{name}") };
        text.push_str(&format!(
            "[cgroup.\"/{name}\"]\n\
             \"io.max\" = \"disk riops={LIMIT}\"\n\
             \"io.limiter\" = \"{limiter}\"\n\
             [export.{name}]\n\
             device = \"disk\"\n\
             cgroup = \"{cgroup}\"\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_configuration_is_valid() {
        let config = weir_config::Config::from_str("demo.toml", &super::config());
        let config = config.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(config.exports.len(), 5);
        assert_eq!(config.cgroups.len(), 6);
    }
}
