//! Warnings about settings that are valid, and likely not what is meant.

use weir_engine::SchedulerKind;
use weir_engine::settings::BfqSettings;

use crate::model::{Config, DeviceConfig, PeerConfig, TlsMode};

/// Least depth with which a device queues commands for BFQ.
const DEPTH_QUEUEING: u32 = 4;

impl Config {
    /// Sentences that tell of settings that are valid, and likely not what is meant.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> =
            self.devices.iter().flat_map(DeviceConfig::warnings).collect();
        if self.tls.is_some() && !self.server.uses_tls() {
            warnings.push("tls: nothing uses it; say `tls = \"required\"` under [server]".into());
        }
        let asks = self.server.tls != TlsMode::Off
            && self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        for peer in self.peers.iter().filter(|peer| !asks && !peer.certificate.is_empty()) {
            let PeerConfig { name, .. } = peer;
            warnings.push(format!(
                "peer {name}: no client shows a certificate: it takes `tls` and `client_ca`"
            ));
        }
        let exports = || self.exports.iter().map(|export| export.name.as_str());
        warnings.extend(self.peers.iter().flat_map(|peer| peer.warnings(exports())));
        warnings
    }
}

impl DeviceConfig {
    /// Sentences that tell where idling is likely to cost more than it protects: what is set, what follows, and what to set
    /// instead.
    pub fn warnings(&self) -> Vec<String> {
        let engine = &self.engine;
        if engine.scheduler != SchedulerKind::Bfq {
            return Vec::new();
        }
        let (name, bfq) = (&self.name, &engine.bfq);
        let idle = bfq.slice_idle();
        let mut warnings = Vec::new();
        if bfq.strict_guarantees() {
            warnings.push(format!(
                "device {name}: strict_guarantees = 1 gives the device one request at a time and keeps it free after each \
                 client's last, which costs flash nearly all of its rate; weights hold without it"
            ));
        } else if !engine.rotational && !idle.is_zero() && engine.depth.get() < DEPTH_QUEUEING {
            warnings.push(format!(
                "device {name}: with depth = {} bfq takes flash for a device that cannot queue commands, and keeps it free \
                 for each client in turn; set depth = {DEPTH_QUEUEING} or more, or slice_idle = 0",
                engine.depth
            ));
        }
        let default_idle = BfqSettings::DEFAULT.slice_idle();
        if idle > default_idle {
            warnings.push(format!(
                "device {name}: slice_idle = {} ms keeps the device free for longer than a disk takes to seek; {} ms is the \
                 default",
                idle.as_millis(),
                default_idle.as_millis()
            ));
        }
        if !warnings.is_empty() && self.watermark.percent() > 0 {
            warnings.push(format!(
                "device {name}: a device that is kept free is not used, so that limits under its watermark may not bind"
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn warnings(device: &str) -> Vec<String> {
        let text = format!(
            "[server]\nsocket = \"/tmp/weir.sock\"\n[device.d]\nscheduler = \"bfq\"\n{device}\n[export.e]\ndevice = \"d\"\ncgroup = \"/\"\n"
        );
        let config = Config::from_str("weir.toml", &text).expect("a valid configuration");
        config.devices[0].warnings()
    }

    #[test]
    fn what_is_likely_not_meant_is_told() {
        let text = "[tls]\ncertificate = 'c'\nkey = 'k'\n[device.d]\npath = 'memory:1M'\n\
                    [export.vm1]\ndevice = 'd'\ncgroup = '/'\n[peer.a]\ncertificate = '*'\nexports = ['vm1', 'vm2', 'x-*']\n";
        let config = Config::from_str("weir.toml", text).expect("a valid configuration");
        let warnings = config.warnings();
        assert!(warnings[0].starts_with("tls: "), "{warnings:?}");
        assert!(warnings[1].starts_with("peer a: no client shows"), "{warnings:?}");
        assert_eq!(warnings[2..], ["peer a: there is no export \"vm2\""]);
    }

    #[test]
    fn settings_that_make_idling_costly_are_told() {
        let (flash, disk) = ("path = \"emulated:ssd-sata\"", "path = \"emulated:hdd7200\"");
        for (what, told) in [
            (flash.to_owned(), &[][..]),
            (disk.to_owned(), &[]),
            (format!("{disk}\ndepth = 1"), &[]),
            (format!("{flash}\ndepth = 3"), &["depth = 3"]),
            (format!("{flash}\ndepth = 3\n[device.d.bfq]\nslice_idle = \"0ms\""), &[]),
            (format!("{flash}\n[device.d.bfq]\nstrict_guarantees = true"), &["strict_guarantees"]),
            (format!("{disk}\n[device.d.bfq]\nslice_idle = \"20ms\""), &["slice_idle = 20 ms"]),
            (format!("{flash}\nwatermark = 90\ndepth = 1"), &["depth = 1", "watermark"]),
        ] {
            let warnings = warnings(&what);
            assert_eq!(warnings.len(), told.len(), "{what}: {warnings:?}");
            for (warning, told) in warnings.iter().zip(told) {
                assert!(warning.contains(told), "{what}: {warning}");
            }
        }
    }
}
