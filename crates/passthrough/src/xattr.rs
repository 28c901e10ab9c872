//! Extended attributes, ACLs among them.

use rustix::fs::{
    XattrFlags, getxattr, getxattr_query, listxattr, listxattr_query, removexattr, setxattr,
};
use rustix::io::{Errno, Result};
use weir_fuse_proto::{FileKind, Op, Request, reply};

use crate::attributes::stat;
use crate::buffer::Worker;
use crate::pass_through::{DescriptorName, PassThrough};

/// Longest value and longest list of names (`XATTR_SIZE_MAX`).
const LEN_MAX: u32 = 64 << 10;

impl PassThrough {
    /// By way of `/proc`, as the calls that take a descriptor want one that is open for reading or writing.
    pub(crate) fn extended_attribute(
        &self,
        request: &Request<'_>,
        worker: &mut Worker,
    ) -> Result<()> {
        let unique = request.unique;
        let node = self.nodes.get(request.node)?.descriptor()?;
        if FileKind::of_mode(stat(&node)?.stx_mode.into()) == FileKind::Symlink {
            // The link in `/proc` would be meant itself. Only the administrator's attributes are possible there.
            return match request.op {
                Op::Listxattr { size: 0 } => {
                    worker.reply.set(&reply::size(unique, 0));
                    Ok(())
                }
                Op::Listxattr { .. } => worker.reply.set_data(unique, 0, |_| Ok(0)),
                _ => Err(Errno::OPNOTSUPP),
            };
        }
        let path = DescriptorName::of(&node).to_path();
        match request.op {
            Op::Setxattr { name, value, flags, kills_sgid } => {
                worker.caller.kill_suidgid(kills_sgid)?;
                setxattr(path, name, value, XattrFlags::from_bits_retain(flags))?;
                worker.reply.set(&reply::ok(unique));
            }
            Op::Removexattr { name } => {
                removexattr(path, name)?;
                worker.reply.set(&reply::ok(unique));
            }
            Op::Getxattr { name, size: 0 } => {
                worker.reply.set(&reply::size(unique, getxattr_query(path, name)? as u32));
            }
            Op::Listxattr { size: 0 } => {
                worker.reply.set(&reply::size(unique, listxattr_query(path)? as u32));
            }
            Op::Getxattr { name, size } => {
                let len = size.min(LEN_MAX) as usize;
                worker.reply.set_data(unique, len, |bytes| getxattr(path, name, bytes))?;
            }
            Op::Listxattr { size } => {
                let len = size.min(LEN_MAX) as usize;
                worker.reply.set_data(unique, len, |bytes| listxattr(path, bytes))?;
            }
            _ => return Err(Errno::NOSYS),
        }
        Ok(())
    }
}
