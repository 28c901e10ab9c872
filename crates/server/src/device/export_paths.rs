//! Cgroup of each export of a device, also after the cgroup has been moved.

use std::collections::BTreeMap;

use weir_engine::{Path, PerDimension};
use weir_nbd::ExportId;

use crate::exports::ExportPlace;

/// The cgroups of one device's exports, by their present paths.
#[derive(Debug, Default)]
pub(super) struct ExportPaths {
    places: BTreeMap<ExportId, Place>,
}

/// Where connections to an export belong.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) cgroup: Path,
    /// Limits of each client.
    pub(super) client_max: PerDimension,
}

impl ExportPaths {
    /// Of the exports that the device has from the start.
    pub(super) fn new(exports: Vec<ExportPlace>) -> ExportPaths {
        let mut paths = ExportPaths::default();
        exports.into_iter().for_each(|place| drop(paths.insert(place)));
        paths
    }

    /// Adds an export, or puts it elsewhere; where it was before.
    pub(super) fn insert(&mut self, place: ExportPlace) -> Option<Place> {
        let ExportPlace { export, name, cgroup, client_max } = place;
        self.places.insert(export, Place { name, cgroup, client_max })
    }

    pub(super) fn remove(&mut self, export: ExportId) {
        self.places.remove(&export);
    }

    /// `None` where this device does not have `export`.
    pub(super) fn of(&self, export: ExportId) -> Option<&Place> {
        self.places.get(&export)
    }

    /// Name of an export that leads to `cgroup` or below it. O(exports).
    pub(super) fn export_below(&self, cgroup: &Path) -> Option<&str> {
        let mut places = self.places.values();
        let below = places.find(|place| names_after(&place.cgroup, cgroup).is_some());
        below.map(|place| place.name.as_str())
    }

    /// Takes note that `cgroup` hangs below `parent` now. O(exports).
    pub(super) fn moved(&mut self, cgroup: &Path, parent: &Path) {
        let Some(name) = cgroup.names().last() else { return };
        for Place { cgroup: path, .. } in self.places.values_mut() {
            let Some(rest) = names_after(path, cgroup) else { continue };
            let names: Vec<&str> = parent.names().chain([name]).chain(rest).collect();
            let text = format!("/{}", names.join("/"));
            *path = Path::parse(&text).expect("made of names that are cgroups' already");
        }
    }
}

/// The names by which `path` goes on below `cgroup`; `None` if it is not there.
fn names_after<'p>(path: &'p Path, cgroup: &Path) -> Option<impl Iterator<Item = &'p str>> {
    let mut rest = path.names();
    cgroup.names().all(|name| rest.next() == Some(name)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    #[test]
    fn exports_follow_their_cgroup() {
        let place = |number, name: &str, cgroup: &str| ExportPlace {
            export: ExportId(number),
            name: name.into(),
            cgroup: path(cgroup),
            client_max: PerDimension::NONE,
        };
        let of = |paths: &ExportPaths, number| {
            paths.of(ExportId(number)).map(|place| place.cgroup.as_str().to_owned())
        };
        let mut paths =
            ExportPaths::new(vec![place(0, "db", "/vms/a/db"), place(2, "ab", "/vms/ab")]);
        assert_eq!(paths.export_below(&path("/vms/a")), Some("db"));
        paths.moved(&path("/vms/a"), &path("/gold"));
        assert_eq!(of(&paths, 0).as_deref(), Some("/gold/a/db"));
        assert_eq!(of(&paths, 1), None);
        assert_eq!(of(&paths, 2).as_deref(), Some("/vms/ab"), "another name that begins alike");
        assert_eq!(paths.export_below(&path("/vms/a")), None);
        paths.moved(&path("/gold/a/db"), &path("/"));
        assert_eq!(of(&paths, 0).as_deref(), Some("/db"));
        paths.remove(ExportId(0));
        assert_eq!(paths.export_below(&path("/db")), None);
    }
}
