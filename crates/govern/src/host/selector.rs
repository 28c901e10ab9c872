//! Selectors: which cgroups are meant, by their paths.

use super::glob;

/// What a selector's name is a name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectorKind {
    /// A path below the tree's root.
    Cgroup,
    /// A unit of systemd.
    Unit,
    /// A container: its ID, or its name for LXC and systemd-nspawn.
    Container,
    /// A pod of Kubernetes: its UID.
    Pod,
    /// A user's slice: its UID.
    User,
}

impl SelectorKind {
    /// All kinds.
    pub const ALL: [SelectorKind; 5] = [
        SelectorKind::Cgroup,
        SelectorKind::Unit,
        SelectorKind::Container,
        SelectorKind::Pod,
        SelectorKind::User,
    ];

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            SelectorKind::Cgroup => "cgroup",
            SelectorKind::Unit => "unit",
            SelectorKind::Container => "container",
            SelectorKind::Pod => "pod",
            SelectorKind::User => "user",
        }
    }
}

/// Selects cgroups by their paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    kind: SelectorKind,
    pattern: String,
}

/// Why a name selects nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The name is empty.
    #[error("the name is empty")]
    Empty,
    /// A longer name than a path can have.
    #[error("the name has {len} bytes: at most {PATTERN_MAX} are allowed")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// A path that does not begin at the root of the tree.
    #[error("a cgroup's path begins with a slash")]
    NotAbsolute,
    /// The root, which has no limits.
    #[error("the root cgroup has no limits")]
    Root,
    /// A slash in the name of something that is no path.
    #[error("a {kind} has no slash in its name")]
    Slash {
        /// The kind.
        kind: &'static str,
    },
    /// A user's name.
    #[error("a user is selected by number")]
    NotAUid,
}

impl SelectorError {
    /// What would be right.
    pub fn hint(self) -> &'static str {
        match self {
            SelectorError::Empty | SelectorError::TooLong { .. } => "leave the section out",
            SelectorError::NotAbsolute => {
                "write it as below /sys/fs/cgroup, such as \"/system.slice/backup.service\""
            }
            SelectorError::Root => "select cgroups below it, such as \"/*\"",
            SelectorError::Slash { .. } => "for a path write [cgroup.\"/PATH\"]",
            SelectorError::NotAUid => "`id -u NAME` prints it",
        }
    }
}

const PATTERN_MAX: usize = 4096;
/// So many digits of a container's ID are enough; `docker ps` shows as many.
const SHORT_ID: usize = 12;
/// Digits of a whole ID.
const WHOLE_ID: usize = 64;
/// What stands before the ID in the name of a container's scope or cgroup.
const CONTAINER_PREFIXES: [&str; 5] =
    ["docker-", "libpod-", "crio-", "cri-containerd-", "nerdctl-"];

impl Selector {
    /// Reads a name; `*` and `?` in it are patterns, and `**` in a path is any number of names.
    ///
    /// # Errors
    /// See [`SelectorError`].
    pub fn parse(kind: SelectorKind, name: &str) -> Result<Selector, SelectorError> {
        if name.is_empty() {
            return Err(SelectorError::Empty);
        }
        if name.len() > PATTERN_MAX {
            return Err(SelectorError::TooLong { len: name.len() });
        }
        let mut pattern = name.to_owned();
        match kind {
            SelectorKind::Cgroup if !name.starts_with('/') => {
                return Err(SelectorError::NotAbsolute);
            }
            SelectorKind::Cgroup if name.bytes().all(|byte| byte == b'/') => {
                return Err(SelectorError::Root);
            }
            SelectorKind::Cgroup => {}
            _ if name.contains('/') => return Err(SelectorError::Slash { kind: kind.name() }),
            // As systemctl does.
            SelectorKind::Unit if !name.contains('.') => pattern.push_str(".service"),
            SelectorKind::User if name.parse::<u32>().is_err() => {
                return Err(SelectorError::NotAUid);
            }
            SelectorKind::Pod => pattern = pattern.replace('_', "-"),
            _ => {}
        }
        Ok(Selector { kind, pattern })
    }

    /// Whether the cgroup at `path` is meant: the unit, container, pod or user itself, not what is below it.
    pub fn is_match(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        match self.kind {
            SelectorKind::Cgroup => glob::is_path_match(&self.pattern, path),
            SelectorKind::Unit => glob::is_match(&self.pattern, name),
            SelectorKind::User => {
                let uid = name.strip_prefix("user-").and_then(|rest| rest.strip_suffix(".slice"));
                uid == Some(self.pattern.as_str())
            }
            SelectorKind::Pod => {
                pod(name).is_some_and(|uid| glob::is_match(&self.pattern, &uid.replace('_', "-")))
            }
            SelectorKind::Container => container(name).is_some_and(|id| {
                glob::is_match(&self.pattern, id)
                    || (self.pattern.len() >= SHORT_ID && id.starts_with(&self.pattern))
            }),
        }
    }
}

/// The pod's UID: of `kubepods-burstable-podUID.slice` and `podUID`.
fn pod(name: &str) -> Option<&str> {
    match name.strip_suffix(".slice") {
        Some(slice) => {
            let (before, uid) = slice.rsplit_once("-pod")?;
            before.starts_with("kubepods").then_some(uid)
        }
        None => name.strip_prefix("pod").filter(|uid| uid.contains('-')),
    }
}

/// The container's ID or name.
fn container(name: &str) -> Option<&str> {
    let bare = name.strip_suffix(".scope").unwrap_or(name);
    if let Some(id) = CONTAINER_PREFIXES.iter().find_map(|prefix| bare.strip_prefix(prefix)) {
        return is_id(id).then_some(id);
    }
    if let Some(machine) = bare.strip_prefix("machine-").filter(|_| bare.len() < name.len()) {
        return Some(machine);
    }
    if let Some(lxc) = name.strip_prefix("lxc.payload.") {
        return Some(lxc);
    }
    is_id(bare).then_some(bare)
}

fn is_id(text: &str) -> bool {
    text.len() == WHOLE_ID && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(kind: SelectorKind, name: &str, path: &str) -> bool {
        Selector::parse(kind, name).expect("a selector").is_match(path)
    }

    #[test]
    fn units_and_users_are_the_last_name() {
        use SelectorKind::{Unit, User};
        for (kind, name, path, wanted) in [
            (Unit, "backup", "/system.slice/backup.service", true),
            (Unit, "backup.service", "/system.slice/backup.service", true),
            (Unit, "backup", "/system.slice/backup.service/inner", false),
            (Unit, "backup@*", "/system.slice/system-backup.slice/backup@a.service", true),
            (Unit, "user.slice", "/user.slice", true),
            (User, "1000", "/user.slice/user-1000.slice", true),
            (User, "100", "/user.slice/user-1000.slice", false),
            (User, "1000", "/user.slice/user-1000.slice/session-1.scope", false),
        ] {
            // `backup@*` has no dot, and is a service then.
            assert_eq!(selects(kind, name, path), wanted, "{name} {path}");
        }
    }

    #[test]
    fn containers_and_pods_are_named_in_paths() {
        use SelectorKind::{Container, Pod};
        let id = "0123456789abcdef".repeat(4);
        let uid = "12345678-1234-1234-1234-123456789012";
        let escaped = uid.replace('-', "_");
        let slice = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{escaped}.slice"
        );
        for (kind, name, path, wanted) in [
            (Container, "0123456789ab", format!("/system.slice/docker-{id}.scope"), true),
            (Container, "0123456789ab", format!("/docker/{id}"), true),
            (Container, "01234", format!("/docker/{id}"), false),
            (Container, "01234*", format!("/docker/{id}"), true),
            (Container, &id, format!("{slice}/cri-containerd-{id}.scope"), true),
            (Container, &id, format!("{slice}/crio-{id}.scope"), true),
            (Container, &id, format!("{slice}/crio-conmon-{id}.scope"), false),
            (Container, "web*", "/lxc.payload.web1".to_owned(), true),
            (Container, "web1", "/machine.slice/machine-web1.scope".to_owned(), true),
            (Container, "*", "/system.slice/backup.service".to_owned(), false),
            (Pod, uid, slice.clone(), true),
            (Pod, "12345678-*", slice.clone(), true),
            (Pod, uid, format!("/kubepods/burstable/pod{uid}"), true),
            (Pod, uid, format!("{slice}/cri-containerd-{id}.scope"), false),
            (Pod, "*", "/system.slice/podman.service".to_owned(), false),
        ] {
            assert_eq!(selects(kind, name, &path), wanted, "{name} {path}");
        }
    }

    #[test]
    fn names_that_select_nothing_are_refused() {
        use SelectorKind::{Cgroup, Unit, User};
        for (kind, name, wanted) in [
            (Cgroup, "", SelectorError::Empty),
            (Cgroup, "a/b", SelectorError::NotAbsolute),
            (Cgroup, "/", SelectorError::Root),
            (Unit, "a/b", SelectorError::Slash { kind: "unit" }),
            (User, "alice", SelectorError::NotAUid),
            (Unit, &"x".repeat(5000), SelectorError::TooLong { len: 5000 }),
        ] {
            assert_eq!(Selector::parse(kind, name), Err(wanted));
        }
    }
}
