//! Table of the nodes that the kernel knows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags, Statx, openat};
use rustix::io::{Errno, Result};
use weir_fuse_proto::{Forget, ROOT};
use weir_uring::FileHandle;

use crate::attributes::stat;
use crate::node::{Identity, Location, Node, errno, lock};

/// Most mounts below the source of which a descriptor is kept. Files of further ones are found by name.
const MOUNTS_MAX: usize = 1024;

/// The nodes, by id and by what they are.
#[derive(Debug)]
pub(crate) struct Nodes {
    root: Arc<Node>,
    /// Whether file handles can be opened here.
    has_handles: bool,
    table: Mutex<Table>,
    /// A descriptor in each mount, for its file handles.
    mounts: Mutex<HashMap<u64, Arc<OwnedFd>>>,
}

#[derive(Debug)]
struct Table {
    by_id: HashMap<u64, Known>,
    by_identity: HashMap<Identity, u64>,
    /// Ids are never used again, so that generations need not be told.
    next_id: u64,
}

#[derive(Debug)]
struct Known {
    node: Arc<Node>,
    lookups: u64,
}

impl Nodes {
    /// `root` is the source, open for reading. Files are found by name where `by_name`, and where there are no handles.
    pub(crate) fn new(root: OwnedFd, by_name: bool) -> Result<Nodes> {
        let seen = stat(&root)?;
        let root = Arc::new(root);
        let handle = FileHandle::of(root.as_fd()).ok();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = handle.as_ref().map(|handle| handle.open(root.as_fd(), flags.bits()));
        let has_handles = !by_name && matches!(opened, Some(Ok(_)));
        if !has_handles {
            tracing::debug!("no file handles: files are found by name ({opened:?})");
        }
        let mounts = HashMap::from([(seen.stx_mnt_id, root.clone())]);
        let identity = Identity::new(&seen, handle.filter(|_| has_handles).as_ref());
        let by_identity = HashMap::from([(identity.clone(), ROOT)]);
        let node = Arc::new(Node::new(ROOT, identity, true, Location::Kept(root)));
        let known = Known { node: node.clone(), lookups: 1 };
        let by_id = HashMap::from([(ROOT, known)]);
        let table = Mutex::new(Table { by_id, by_identity, next_id: ROOT + 1 });
        Ok(Nodes { root: node, has_handles, table, mounts: Mutex::new(mounts) })
    }

    /// The source.
    pub(crate) fn root(&self) -> &Arc<Node> {
        &self.root
    }

    /// Nodes that the kernel knows.
    pub(crate) fn len(&self) -> usize {
        lock(&self.table).by_id.len()
    }

    /// The node of an id.
    ///
    /// # Errors
    /// `ESTALE` for one that was forgotten, which the kernel does not send.
    pub(crate) fn get(&self, id: u64) -> Result<Arc<Node>> {
        if id == ROOT {
            return Ok(self.root.clone());
        }
        let table = lock(&self.table);
        table.by_id.get(&id).map(|known| known.node.clone()).ok_or(Errno::STALE)
    }

    /// The node of an inode that was found under a name, with one more lookup, which [`Nodes::forget`] takes back.
    pub(crate) fn lookup(
        &self,
        parent: &Arc<Node>,
        name: &OsStr,
        found: OwnedFd,
    ) -> Result<(Arc<Node>, Statx)> {
        let seen = stat(&found)?;
        let handle = self.has_handles.then(|| FileHandle::of(found.as_fd()).ok()).flatten();
        let identity = Identity::new(&seen, handle.as_ref());
        {
            let mut table = lock(&self.table);
            if let Some(known) = table.find(&identity) {
                known.lookups += 1;
                known.node.seen_as(parent, name);
                return Ok((known.node.clone(), seen));
            }
        }
        let is_directory = rustix::fs::FileType::from_raw_mode(seen.stx_mode.into())
            == rustix::fs::FileType::Directory;
        let mount = handle.as_ref().and_then(|_| self.mount(&seen, &found, is_directory));
        let location = match (handle, mount) {
            (Some(handle), Some(mount)) => Location::Handle(mount, handle),
            _ => Location::Name(parent.clone(), name.into()),
        };
        let mut table = lock(&self.table);
        // Meanwhile another thread may have looked it up.
        if let Some(known) = table.find(&identity) {
            known.lookups += 1;
            return Ok((known.node.clone(), seen));
        }
        let id = table.next_id;
        table.next_id += 1;
        let node = Arc::new(Node::new(id, identity.clone(), is_directory, location));
        table.by_identity.insert(identity, id);
        table.by_id.insert(id, Known { node: node.clone(), lookups: 1 });
        Ok((node, seen))
    }

    /// A descriptor in the mount of an inode; none where there are too many, or none can be had.
    fn mount(&self, seen: &Statx, found: &OwnedFd, is_directory: bool) -> Option<Arc<OwnedFd>> {
        let mut mounts = lock(&self.mounts);
        if let Some(mount) = mounts.get(&seen.stx_mnt_id) {
            return Some(mount.clone());
        }
        if !is_directory || mounts.len() >= MOUNTS_MAX {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mount = Arc::new(openat(found, c".", flags, Mode::empty()).ok()?);
        // Handles of another file system may not be possible.
        let handle = FileHandle::of(found.as_fd()).ok()?;
        handle.open(mount.as_fd(), OFlags::PATH.bits()).map_err(|error| errno(&error)).ok()?;
        mounts.insert(seen.stx_mnt_id, mount.clone());
        Some(mount)
    }

    /// The node of an inode if the kernel knows it: for one that has got another name.
    pub(crate) fn seen_as(&self, parent: &Arc<Node>, name: &OsStr, found: &OwnedFd) {
        if self.has_handles {
            return;
        }
        let Ok(seen) = stat(found) else { return };
        if let Some(known) = lock(&self.table).find(&Identity::new(&seen, None)) {
            known.node.seen_as(parent, name);
        }
    }

    /// Takes lookups back; a node without any is not known any more.
    pub(crate) fn forget(&self, forget: Forget) {
        let mut table = lock(&self.table);
        let Entry::Occupied(mut entry) = table.by_id.entry(forget.node) else { return };
        let known = entry.get_mut();
        known.lookups = known.lookups.saturating_sub(forget.lookups);
        if known.lookups > 0 || forget.node == ROOT {
            return;
        }
        let known = entry.remove();
        if table.by_identity.get(&known.node.identity) == Some(&forget.node) {
            table.by_identity.remove(&known.node.identity);
        }
        drop(table);
        // The last reference to a parent may go with it, outside the lock.
        drop(known);
    }
}

impl Table {
    fn find(&mut self, identity: &Identity) -> Option<&mut Known> {
        let id = self.by_identity.get(identity)?;
        self.by_id.get_mut(id)
    }
}
