//! Disks by name.

use crate::hdd::HddSpec;
use crate::linear::DRIVES;
use crate::ssd::SsdSpec;

/// A disk with a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preset {
    /// Its name, the beginning of a [`Spec`](crate::Spec).
    pub name: &'static str,
    /// Description, in a line.
    pub about: &'static str,
    /// Source of its figures.
    pub source: &'static str,
}

const NULL: Preset = Preset {
    name: "null",
    about: "a fixed rate and latency",
    source: "the defaults of the kernel's null_blk",
};

pub(crate) const HDDS: &[(Preset, HddSpec)] = &[
    (
        Preset {
            name: "hdd7200",
            about: "desktop disk of 1 TB, 7,200 rpm, SATA",
            source: "published figures of the Seagate Barracuda 7200.12 class, 2009; inner rate estimated",
        },
        HddSpec::HDD7200,
    ),
    (
        Preset {
            name: "hdd4200",
            about: "laptop disk of 300 GB, 4,200 rpm, SATA",
            source: "published figures of the FUJITSU MHX2300BT class, 2007; rates estimated",
        },
        HddSpec::HDD4200,
    ),
    (
        Preset {
            name: "disk2009",
            about: "the 20 MB/s disk of the io-throttle results, 80 GB, parallel ATA",
            source: "rate from the io-throttle results of 2009; the rest of a laptop disk of those years",
        },
        HddSpec::DISK2009,
    ),
];

pub(crate) const SSDS: &[(Preset, SsdSpec)] = &[
    (
        Preset {
            name: "ssd-sata",
            about: "SATA flash disk of 500 GB, 3D TLC",
            source: "published figures of the Samsung 860 EVO 500GB, 2018; flash times of its generation",
        },
        SsdSpec::SATA,
    ),
    (
        Preset {
            name: "ssd-nvme",
            about: "NVMe flash disk of 512 GB, PCI Express 3.0 x4, 3D MLC",
            source: "published figures of the Samsung 970 PRO 512GB, 2018; flash times of its generation",
        },
        SsdSpec::NVME,
    ),
];

/// All disks with a name: `null`, platters, flash, the kernel's linear profiles and measured drives.
pub fn presets() -> impl Iterator<Item = Preset> + Clone {
    let hdds = HDDS.iter().map(|(preset, _)| *preset);
    let ssds = SSDS.iter().map(|(preset, _)| *preset);
    let drives = DRIVES.iter().map(|(preset, _)| *preset);
    core::iter::once(NULL).chain(hdds).chain(ssds).chain(drives)
}

pub(crate) fn find<S: Copy>(table: &[(Preset, S)], name: &str) -> Option<(&'static str, S)> {
    let found = table.iter().find(|(preset, _)| preset.name == name)?;
    Some((found.0.name, found.1))
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;

    use super::*;
    use crate::Spec;

    #[test]
    fn every_preset_makes_a_disk_and_is_listed_once() {
        let names: BTreeSet<&str> = presets().map(|preset| preset.name).collect();
        assert_eq!((names.len(), presets().count()), (46, 46));
        for preset in presets() {
            let spec: Spec = preset.name.parse().unwrap();
            assert!(spec.to_string().starts_with(preset.name));
            assert_eq!(spec.to_string().parse(), Ok(spec));
            assert_eq!(spec.build().capacity(), spec.size());
            assert!(
                preset.name.len() <= 40 && preset.about.len() <= 80 && !preset.source.is_empty()
            );
        }
    }
}
