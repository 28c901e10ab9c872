//! Tenants of the watermark demo.

use super::super::job::Job;

/// Rate of the disk in bytes a second: four times the sum of the limits.
pub(super) const DISK: u64 = 24 << 20;

/// Reads of 64 KiB, four at a time: one at a time would measure the socket, not the disk.
pub(super) const JOB: Job = Job { block: 65_536, queue_depth: 4, think_ns: 0, hiccup_ns: 0 };

/// A tenant that reads as fast as it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tenant {
    /// Export and cgroup.
    pub(super) name: &'static str,
    /// Bytes a second.
    pub(super) limit: Option<u64>,
}

pub(super) const TENANTS: [Tenant; 3] = [
    Tenant { name: "one", limit: Some(4 << 20) },
    Tenant { name: "two", limit: Some(2 << 20) },
    Tenant { name: "three", limit: None },
];

impl Tenant {
    pub(super) fn cgroup(&self) -> String {
        format!("/{}", self.name)
    }
}

/// The server's configuration; `@` is its directory.
pub(super) fn config() -> String {
    let mut text = format!(
        "[server]\n\
         socket = \"@/nbd.sock\"\n\
         control = \"@/control.sock\"\n\
         [device.disk]\n\
         path = \"emulated:null,rate={DISK},latency=0ns,size=4G\"\n\
         watermark = 90\n"
    );
    for tenant in TENANTS {
        let (name, cgroup) = (tenant.name, tenant.cgroup());
        text.push_str(&format!("[cgroup.\"{cgroup}\"]\n"));
        if let Some(limit) = tenant.limit {
            text.push_str(&format!("\"io.max\" = \"disk rbps={limit}\"\n"));
        }
        text.push_str(&format!("[export.{name}]\ndevice = \"disk\"\ncgroup = \"{cgroup}\"\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_configuration_is_valid() {
        let config = weir_config::Config::from_str("demo.toml", &super::config());
        let config = config.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(config.devices[0].watermark.percent(), 90);
        assert_eq!((config.exports.len(), config.cgroups.len()), (3, 3));
    }
}
