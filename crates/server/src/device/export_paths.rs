//! Cgroup of each export of a device, also after the cgroup has been moved.

use std::collections::BTreeMap;

use weir_engine::Path;
use weir_nbd::ExportId;

use crate::exports::ExportPlace;

/// The cgroups of one device's exports, by their present paths.
#[derive(Debug, Default)]
pub(super) struct ExportPaths {
    /// Name and cgroup.
    places: BTreeMap<ExportId, (String, Path)>,
}

impl ExportPaths {
    /// Of the exports that the device has from the start.
    pub(super) fn new(exports: Vec<ExportPlace>) -> ExportPaths {
        let mut paths = ExportPaths::default();
        exports.into_iter().for_each(|place| paths.insert(place));
        paths
    }

    /// Adds an export, or puts it elsewhere.
    pub(super) fn insert(&mut self, place: ExportPlace) {
        let ExportPlace { export, name, cgroup } = place;
        self.places.insert(export, (name, cgroup));
    }

    pub(super) fn remove(&mut self, export: ExportId) {
        self.places.remove(&export);
    }

    /// The cgroup of connections to `export`; `None` where this device does not have it.
    pub(super) fn of(&self, export: ExportId) -> Option<&Path> {
        self.places.get(&export).map(|(_, cgroup)| cgroup)
    }

    /// Name of an export that leads to `cgroup` or below it. O(exports).
    pub(super) fn export_below(&self, cgroup: &Path) -> Option<&str> {
        let mut places = self.places.values();
        let below = places.find(|(_, path)| names_after(path, cgroup).is_some());
        below.map(|(name, _)| name.as_str())
    }

    /// Takes note that `cgroup` hangs below `parent` now. O(exports).
    pub(super) fn moved(&mut self, cgroup: &Path, parent: &Path) {
        let Some(name) = cgroup.names().last() else { return };
        for (_, path) in self.places.values_mut() {
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
        };
        let mut paths =
            ExportPaths::new(vec![place(0, "db", "/vms/a/db"), place(2, "ab", "/vms/ab")]);
        assert_eq!(paths.export_below(&path("/vms/a")), Some("db"));
        paths.moved(&path("/vms/a"), &path("/gold"));
        assert_eq!(paths.of(ExportId(0)), Some(&path("/gold/a/db")));
        assert_eq!(paths.of(ExportId(1)), None);
        assert_eq!(paths.of(ExportId(2)), Some(&path("/vms/ab")), "another name that begins alike");
        assert_eq!(paths.export_below(&path("/vms/a")), None);
        paths.moved(&path("/gold/a/db"), &path("/"));
        assert_eq!(paths.of(ExportId(0)), Some(&path("/db")));
        paths.remove(ExportId(0));
        assert_eq!(paths.export_below(&path("/db")), None);
    }
}
