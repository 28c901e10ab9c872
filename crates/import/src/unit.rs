//! Names of systemd's units, and the cgroups that they have.

/// Ends of units that have processes or hold those that have.
const KINDS: [&str; 6] = [".service", ".slice", ".scope", ".socket", ".mount", ".swap"];

/// Whether `name` is one of a unit with a cgroup.
pub(crate) fn is_unit(name: &str) -> bool {
    KINDS.iter().any(|kind| name.len() > kind.len() && name.ends_with(kind))
}

/// The unit that the file at `path` is of: itself, or that of a directory of drop-ins, `backup.service.d`.
pub(crate) fn of_file(path: &str) -> Option<&str> {
    let mut parts = path.rsplit('/');
    let name = parts.next()?;
    let parent = parts.next().and_then(|parent| parent.strip_suffix(".d"));
    [Some(name), parent].into_iter().flatten().find(|name| is_unit(name))
}

/// Names of the cgroup of the slice `name`: `a-b.slice` is in `a.slice`, and `-.slice` is the root.
pub(crate) fn slice(name: &str) -> Vec<String> {
    let Some(stem) = name.strip_suffix(".slice").filter(|stem| *stem != "-") else {
        return Vec::new();
    };
    let ends = stem.match_indices('-').map(|(at, _)| at).chain([stem.len()]);
    ends.map(|end| format!("{}.slice", &stem[..end])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_named_by_their_files() {
        for (path, unit) in [
            ("/etc/systemd/system/backup.service", Some("backup.service")),
            ("backup.service", Some("backup.service")),
            ("/etc/systemd/system/backup.service.d/50-io.conf", Some("backup.service")),
            ("/etc/systemd/system/.service", None),
            ("limits.txt", None),
        ] {
            assert_eq!(of_file(path), unit, "{path}");
        }
    }

    #[test]
    fn slices_are_in_slices() {
        assert_eq!(slice("a-b-c.slice"), ["a.slice", "a-b.slice", "a-b-c.slice"]);
        assert_eq!(slice("system.slice"), ["system.slice"]);
        assert!(slice("-.slice").is_empty());
    }
}
