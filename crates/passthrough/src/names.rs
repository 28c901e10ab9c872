//! Changes of names: removal, renaming, further names.

use std::ffi::OsStr;

use rustix::fs::{AtFlags, RenameFlags, linkat, renameat_with, unlinkat};
use rustix::io::{Errno, Result};
use weir_fuse_proto::{Entry, Op, Request};

use crate::node::find;
use crate::pass_through::{DescriptorName, PassThrough};

impl PassThrough {
    pub(crate) fn change_name(&self, request: &Request<'_>) -> Result<()> {
        let parent = self.nodes.get(request.node)?;
        let directory = parent.descriptor()?;
        match request.op {
            Op::Unlink { name } => unlinkat(&directory, name, AtFlags::empty()),
            Op::Rmdir { name } => unlinkat(&directory, name, AtFlags::REMOVEDIR),
            Op::Rename { name, new_parent, new_name, flags } => {
                let new_parent = self.nodes.get(new_parent)?;
                let new_directory = new_parent.descriptor()?;
                let rename_flags = RenameFlags::from_bits_retain(flags);
                renameat_with(&directory, name, &new_directory, new_name, rename_flags)?;
                if let Ok(moved) = find(rustix::fd::AsFd::as_fd(&new_directory), new_name) {
                    self.nodes.seen_as(&new_parent, new_name, &moved);
                }
                if rename_flags.contains(RenameFlags::EXCHANGE)
                    && let Ok(moved) = find(rustix::fd::AsFd::as_fd(&directory), name)
                {
                    self.nodes.seen_as(&parent, name, &moved);
                }
                Ok(())
            }
            _ => Err(Errno::NOSYS),
        }
    }

    /// A further name for a file, or the first for one without.
    pub(crate) fn link(&self, request: &Request<'_>, target: u64, name: &OsStr) -> Result<Entry> {
        let parent = self.nodes.get(request.node)?;
        let directory = parent.descriptor()?;
        let target = self.nodes.get(target)?.descriptor()?;
        match linkat(&target, c"", &directory, name, AtFlags::EMPTY_PATH) {
            // Without CAP_DAC_READ_SEARCH.
            Err(Errno::NOENT | Errno::PERM) => {
                let file = DescriptorName::of(&target);
                let follow = AtFlags::SYMLINK_FOLLOW;
                linkat(&self.descriptors, file.as_str(), &directory, name, follow)?;
            }
            result => result?,
        }
        Ok(self.find_entry(&parent, &directory, name)?.1)
    }
}
