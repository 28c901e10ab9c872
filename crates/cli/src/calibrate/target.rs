//! Target of a calibration.

use std::path::{Path, PathBuf};

use weir_disk::Spec;

use crate::failure::Failure;

/// A device, or a model of one.
pub(super) enum Target {
    /// A block device or a file, at this path.
    Device(PathBuf),
    /// `emulated:SPEC`.
    Emulated { spec: Spec, virtual_time: bool },
}

impl Target {
    pub(super) fn parse(text: &str, virtual_time: bool) -> Result<Target, Failure> {
        match text.strip_prefix("emulated:") {
            Some(line) => {
                let spec = line.parse().map_err(|error: weir_disk::SpecError| {
                    Failure::wrong(format!("{text}: {error}")).hint(error.problem.hint())
                })?;
                Ok(Target::Emulated { spec, virtual_time })
            }
            None if virtual_time => Err(Failure::wrong(format!(
                "{text} takes real time: --virtual-time is for emulated disks"
            ))
            .hint("for example weir calibrate emulated:hdd7200 --virtual-time".to_owned())),
            None => Ok(Target::Device(text.into())),
        }
    }

    /// Default file of the model: the device's own name, in this directory.
    pub(super) fn model_name(&self, text: &str) -> PathBuf {
        let name = match self {
            Target::Emulated { .. } => {
                let line = text.strip_prefix("emulated:").unwrap_or(text);
                line.split(',').next().unwrap_or(line).to_owned()
            }
            Target::Device(path) => {
                let name = path.file_name().unwrap_or(Path::new("device").as_os_str());
                name.to_string_lossy().into_owned()
            }
        };
        PathBuf::from(name + ".model.toml")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_called_by_what_was_measured() {
        for (text, virtual_time, name) in [
            ("/dev/sdb", false, "sdb.model.toml"),
            ("images/disk.img", false, "disk.img.model.toml"),
            ("emulated:hdd7200,cache=0", true, "hdd7200.model.toml"),
        ] {
            let target = Target::parse(text, virtual_time).ok().unwrap();
            assert_eq!(target.model_name(text), Path::new(name));
        }
        assert!(Target::parse("/dev/sdb", true).is_err());
        assert!(Target::parse("emulated:hdd720", false).is_err());
    }
}
