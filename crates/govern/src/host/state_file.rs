//! State file of a governed device: what is put back when the governor ends, and what it has written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::IoMax;
use crate::kernel::{Interface, parse_limits, print_limits};

/// Newest form of the file that is understood.
const VERSION: u32 = 1;

/// Everything that undoes a governor's writes on one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFile {
    version: u32,
    /// The governor's process.
    pub pid: u32,
    /// The boot it belongs to: cgroups of another are others, whatever their paths.
    pub boot_id: String,
    /// The device's number.
    pub device: String,
    /// Where the tree of cgroups is.
    pub root: String,
    #[serde(with = "interface")]
    interface: Interface,
    cgroups: BTreeMap<String, Kept>,
}

/// A cgroup in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Limits that others have written, last of all.
    #[serde(with = "limits")]
    pub original: IoMax,
    /// Limits that the governor has written or is about to write.
    #[serde(with = "limits_list")]
    pub written: Vec<IoMax>,
}

/// Why a text is no state file.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// It is no JSON of this form.
    #[error("not a state file: {0}")]
    Syntax(#[from] serde_json::Error),
    /// It is of a later version.
    #[error("a state file of version {version}: {VERSION} is the latest that this version knows")]
    Version {
        /// Its version.
        version: u32,
    },
}

impl StateFile {
    /// A file for a governor that has written nothing.
    pub fn new(
        pid: u32,
        boot_id: String,
        device: String,
        root: String,
        interface: Interface,
    ) -> StateFile {
        let cgroups = BTreeMap::new();
        StateFile { version: VERSION, pid, boot_id, device, root, interface, cgroups }
    }

    /// The file with `cgroups`.
    #[must_use]
    pub fn with(&self, cgroups: BTreeMap<String, Kept>) -> StateFile {
        StateFile { cgroups, ..self.clone() }
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// See [`StateFileError`].
    pub fn parse(text: &str) -> Result<StateFile, StateFileError> {
        let file: StateFile = serde_json::from_str(text)?;
        match file.version {
            VERSION => Ok(file),
            version => Err(StateFileError::Version { version }),
        }
    }

    /// The file's text.
    pub fn print(&self) -> String {
        serde_json::to_string_pretty(self).expect("maps with texts as keys are JSON") + "\n"
    }

    /// The tree's interface.
    pub fn interface(&self) -> Interface {
        self.interface
    }

    /// Cgroups that were governed, by path.
    pub fn cgroups(&self) -> impl Iterator<Item = (&str, &Kept)> {
        self.cgroups.iter().map(|(path, kept)| (path.as_str(), kept))
    }
}

impl Kept {
    /// What to write where `stands` is what the kernel has; `None` where nothing of that is the governor's.
    pub fn restoration(&self, stands: IoMax) -> Option<IoMax> {
        let wanted = without_own(self.original, &self.written, stands);
        (wanted != stands).then_some(wanted)
    }
}

/// Limits of others: those of `stands` that are neither in `own` nor in `original`, else those of `original`.
///
/// Limit by limit, because others may write one of them, and because version 1 has a file for each: a governor that is
/// killed may have written some of them.
pub(super) fn without_own(original: IoMax, own: &[IoMax], stands: IoMax) -> IoMax {
    let of = |limit: fn(&IoMax) -> Option<u64>| {
        let is_own = own.iter().any(|own| limit(own) == limit(&stands));
        if is_own { limit(&original) } else { limit(&stands) }
    };
    IoMax {
        rbps: of(|limits| limits.rbps),
        wbps: of(|limits| limits.wbps),
        riops: of(|limits| limits.riops),
        wiops: of(|limits| limits.wiops),
    }
}

mod interface {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::Interface;

    pub(super) fn serialize<S: Serializer>(of: &Interface, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(of.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Interface, D::Error> {
        let name = String::deserialize(from)?;
        let all = [Interface::V2, Interface::V1];
        let found = all.into_iter().find(|interface| interface.name() == name);
        found.ok_or_else(|| de::Error::custom(format!("there is no interface {name:?}")))
    }
}

mod limits {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::{IoMax, parse_limits, print_limits};

    pub(super) fn serialize<S: Serializer>(of: &IoMax, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&print_limits(*of))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<IoMax, D::Error> {
        parse_limits(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}

mod limits_list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use super::{IoMax, parse_limits, print_limits};

    pub(super) fn serialize<S: Serializer>(of: &[IoMax], to: S) -> Result<S::Ok, S::Error> {
        let texts: Vec<String> = of.iter().copied().map(print_limits).collect();
        texts.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IoMax>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        let limits = texts.iter().map(|text| parse_limits(text).map_err(de::Error::custom));
        limits.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(rbps: u64) -> IoMax {
        IoMax { rbps: Some(rbps), ..IoMax::default() }
    }

    #[test]
    fn a_state_file_reads_back() {
        let new = StateFile::new(7, "boot".into(), "8:16".into(), "/cgroup".into(), Interface::V1);
        let kept = Kept { original: reads(5), written: vec![reads(6), IoMax::default()] };
        let file = new.with(BTreeMap::from([("/a \"b\"".to_owned(), kept)]));
        assert_eq!(StateFile::parse(&file.print()).expect("it was printed"), file);
        assert!(file.print().contains("\"rbps=5 wbps=max riops=max wiops=max\""));
        let later = file.print().replace("\"version\": 1", "\"version\": 2");
        assert!(matches!(StateFile::parse(&later), Err(StateFileError::Version { version: 2 })));
        for text in ["", "{}", "null", &file.print().replace("cgroup v1", "cgroup v9")] {
            StateFile::parse(text).expect_err("no state file");
        }
    }

    #[test]
    fn only_what_the_governor_has_written_is_put_back() {
        let kept = Kept { original: reads(5), written: vec![reads(6), reads(7)] };
        assert_eq!(kept.restoration(reads(6)), Some(reads(5)));
        assert_eq!(kept.restoration(reads(7)), Some(reads(5)));
        assert_eq!(kept.restoration(reads(5)), None);
        assert_eq!(kept.restoration(reads(8)), None);
        assert_eq!(kept.restoration(IoMax::default()), None);
    }

    /// The governor was killed between two files of version 1, and another program has written a third.
    #[test]
    fn each_limit_is_put_back_by_itself() {
        let limits = |rbps, wbps, riops| IoMax {
            rbps: Some(rbps),
            wbps: Some(wbps),
            riops: Some(riops),
            wiops: None,
        };
        let kept = Kept {
            original: limits(1, 2, 3),
            written: vec![limits(10, 20, 30), limits(11, 22, 33)],
        };
        assert_eq!(kept.restoration(limits(11, 20, 5)), Some(limits(1, 2, 5)));
        assert_eq!(kept.restoration(limits(1, 2, 5)), None);
    }
}
