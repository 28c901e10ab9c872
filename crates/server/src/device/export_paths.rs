//! Cgroup of each export of a device, also after the cgroup has been moved.

use weir_engine::Path;
use weir_nbd::ExportId;

use crate::exports::ExportTable;

/// The cgroups of one device's exports, by their present paths.
pub(super) struct ExportPaths {
    /// By export; `None` for those of other devices, which have cgroups of the same names and move them apart.
    paths: Vec<Option<Path>>,
}

impl ExportPaths {
    /// As the configuration says it, for the device of index `device`.
    pub(super) fn new(exports: &ExportTable, device: usize) -> ExportPaths {
        let home = |export: &crate::exports::Served| {
            (export.device == device).then(|| export.cgroup.clone())
        };
        ExportPaths { paths: exports.iter().map(home).collect() }
    }

    /// Where connections to export `id` belong.
    ///
    /// # Panics
    /// When the export is another device's.
    pub(super) fn of(&self, id: ExportId) -> &Path {
        self.paths[id.0 as usize].as_ref().expect("an export of this device")
    }

    /// An export that leads to `cgroup` or below it.
    pub(super) fn export_below(&self, cgroup: &Path) -> Option<ExportId> {
        let is_below = |path: &Option<Path>| {
            path.as_ref().is_some_and(|path| names_after(path, cgroup).is_some())
        };
        self.paths.iter().position(is_below).map(|index| ExportId(index as u32))
    }

    /// Takes note that `cgroup` hangs below `parent` now. O(exports).
    pub(super) fn moved(&mut self, cgroup: &Path, parent: &Path) {
        let Some(name) = cgroup.names().last() else { return };
        for path in self.paths.iter_mut().flatten() {
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
        let mut export_paths =
            ExportPaths { paths: vec![Some(path("/vms/a/db")), None, Some(path("/vms/ab"))] };
        assert_eq!(export_paths.export_below(&path("/vms/a")), Some(ExportId(0)));
        export_paths.moved(&path("/vms/a"), &path("/gold"));
        assert_eq!(export_paths.of(ExportId(0)).as_str(), "/gold/a/db");
        assert_eq!(
            export_paths.of(ExportId(2)).as_str(),
            "/vms/ab",
            "another name that begins alike"
        );
        assert_eq!(export_paths.export_below(&path("/vms/a")), None);
        assert_eq!(export_paths.export_below(&path("/")), Some(ExportId(0)));
        export_paths.moved(&path("/gold/a/db"), &path("/"));
        assert_eq!(export_paths.of(ExportId(0)).as_str(), "/db");
    }
}
