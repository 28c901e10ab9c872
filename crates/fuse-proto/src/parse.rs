//! Bytes of a message to a request.

use thiserror::Error;

use crate::attr::{Time, decode_device};
use crate::extension::supplementary_group;
use crate::flags::{
    FSYNC_FDATASYNC, GETATTR_FH, InitFlags, LK_FLOCK, OPEN_KILL_SUIDGID, ReleaseFlags,
    SETXATTR_ACL_KILL_SGID, SetAttrFlags, UNIQUE_RESEND, WriteFlags,
};
use crate::forget::Forgets;
use crate::init::Session;
use crate::input::Input;
use crate::op::{FileLock, Op, SetAttr, SetTime};
use crate::wire::{
    AccessIn, BatchForgetIn, CopyFileRangeIn, CreateIn, FallocateIn, FlushIn, ForgetIn, ForgetOne,
    FsyncIn, GetattrIn, GetxattrIn, InHeader, InitIn, InitInExt, InterruptIn, LinkIn, LockIn,
    LseekIn, MkdirIn, MknodIn, OpenIn, ReadIn, ReleaseIn, Rename2In, RenameIn, SetattrIn,
    SetxattrIn, SetxattrInExt, StatxIn, WriteIn, opcode,
};

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its id, for the reply; without the bit that says it is sent again.
    pub unique: u64,
    /// Node that it is about; 0 for requests about none.
    pub node: u64,
    /// File-system user id of the caller.
    pub uid: u32,
    /// File-system group id of the caller.
    pub gid: u32,
    /// Thread of the caller, as the PID namespace of the mount has it. 0 where there is none, or it is not visible there.
    pub pid: u32,
    /// The group of the directory, where the caller is a member and the kernel says so.
    pub supplementary_group: Option<u32>,
    /// Sent before, to a server that is gone or asked for it. What it changes may have been changed.
    pub is_resent: bool,
    /// What is asked for.
    pub op: Op<'a>,
}

/// Reason why a message is not a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// Too short for a header: this is no FUSE device.
    #[error("a message of {len} bytes, and a header has {}", crate::wire::IN_HEADER_LEN)]
    Header {
        /// Bytes of the message.
        len: usize,
    },
    /// The message is not as long as it says: it was cut, or this is no FUSE device.
    #[error("a message of {len} bytes says that it has {told}")]
    Length {
        /// Bytes of the message.
        len: usize,
        /// What the header says.
        told: u32,
    },
    /// The body does not fit. To be answered with `EIO`, if the request is one that is answered.
    #[error("request {unique} of type {opcode}: its body of {len} bytes makes no sense")]
    Body {
        /// The request's id.
        unique: u64,
        /// Its type.
        opcode: u32,
        /// Bytes of the body.
        len: usize,
    },
}

/// Reads one message of `/dev/fuse`. Costs no more than its names and forgotten nodes; data is not looked at.
///
/// # Errors
/// [`Malformed`], which no kernel sends.
pub fn parse<'a>(message: &'a [u8], session: &Session) -> Result<Request<'a>, Malformed> {
    let mut input = Input(message);
    let header: InHeader = input.read().ok_or(Malformed::Header { len: message.len() })?;
    if header.len as usize != message.len() {
        return Err(Malformed::Length { len: message.len(), told: header.len });
    }
    let body = input.0;
    let malformed = Malformed::Body {
        unique: header.unique & !UNIQUE_RESEND,
        opcode: header.opcode,
        len: body.len(),
    };
    let extensions = usize::from(header.extensions) * 8;
    let own = body.len().checked_sub(extensions).ok_or(malformed)?;
    let (body, extensions) = body.split_at(own);
    let supplementary_group = supplementary_group(Input(extensions)).map_err(|()| malformed)?;
    let op = op(header.opcode, Input(body), session).ok_or(malformed)?;
    Ok(Request {
        unique: header.unique & !UNIQUE_RESEND,
        node: header.node,
        uid: header.uid,
        gid: header.gid,
        pid: header.pid,
        supplementary_group,
        is_resent: header.unique & UNIQUE_RESEND != 0,
        op,
    })
}

/// The meaning of a body; `None` where it does not fit. What follows it is ignored: later versions put more there.
fn op<'a>(kind: u32, mut input: Input<'a>, session: &Session) -> Option<Op<'a>> {
    let op = match kind {
        opcode::LOOKUP => Op::Lookup { name: input.name()? },
        opcode::FORGET => Op::Forget { lookups: input.read::<ForgetIn>()?.lookups },
        opcode::BATCH_FORGET => {
            let BatchForgetIn { count, .. } = input.read()?;
            let len = count.checked_mul(size_of::<ForgetOne>() as u32)?;
            Op::BatchForget(Forgets(input.bytes(len)?))
        }
        opcode::GETATTR => {
            let GetattrIn { flags, fh, .. } = input.read()?;
            Op::Getattr { handle: (flags & GETATTR_FH != 0).then_some(fh) }
        }
        opcode::SETATTR => Op::Setattr(set_attr(&input.read()?)),
        opcode::STATX => {
            let StatxIn { getattr_flags, fh, flags, mask, .. } = input.read()?;
            Op::Statx { handle: (getattr_flags & GETATTR_FH != 0).then_some(fh), flags, mask }
        }
        opcode::READLINK => Op::Readlink,
        opcode::SYMLINK => Op::Symlink { name: input.name()?, target: input.string()? },
        opcode::MKNOD => {
            let MknodIn { mode, rdev, umask, .. } = input.read()?;
            let (rdev_major, rdev_minor) = decode_device(rdev);
            Op::Mknod { name: input.name()?, mode, rdev_major, rdev_minor, umask }
        }
        opcode::MKDIR => {
            let MkdirIn { mode, umask } = input.read()?;
            Op::Mkdir { name: input.name()?, mode, umask }
        }
        opcode::UNLINK => Op::Unlink { name: input.name()? },
        opcode::RMDIR => Op::Rmdir { name: input.name()? },
        opcode::RENAME => {
            let RenameIn { new_parent } = input.read()?;
            Op::Rename { name: input.name()?, new_parent, new_name: input.name()?, flags: 0 }
        }
        opcode::RENAME2 => {
            let Rename2In { new_parent, flags, .. } = input.read()?;
            Op::Rename { name: input.name()?, new_parent, new_name: input.name()?, flags }
        }
        opcode::LINK => {
            let LinkIn { node } = input.read()?;
            Op::Link { target: node, name: input.name()? }
        }
        opcode::OPEN => {
            let OpenIn { flags, open_flags } = input.read()?;
            Op::Open { flags, kills_suidgid: open_flags & OPEN_KILL_SUIDGID != 0 }
        }
        opcode::OPENDIR => Op::Opendir { flags: input.read::<OpenIn>()?.flags },
        opcode::CREATE => {
            let CreateIn { flags, mode, umask, open_flags } = input.read()?;
            let kills_suidgid = open_flags & OPEN_KILL_SUIDGID != 0;
            Op::Create { name: input.name()?, flags, mode, umask, kills_suidgid }
        }
        // A name follows that means nothing.
        opcode::TMPFILE => {
            let CreateIn { flags, mode, umask, .. } = input.read()?;
            Op::Tmpfile { flags, mode, umask }
        }
        opcode::READ => {
            let ReadIn { fh, offset, size, flags, .. } = input.read()?;
            Op::Read { handle: fh, offset, size, flags }
        }
        opcode::WRITE => {
            let WriteIn { fh, offset, size, write_flags, flags, .. } = input.read()?;
            let write_flags = WriteFlags::from_bits_retain(write_flags);
            Op::Write { handle: fh, offset, data: input.bytes(size)?, flags, write_flags }
        }
        opcode::FALLOCATE => {
            let FallocateIn { fh, offset, len, mode, .. } = input.read()?;
            Op::Fallocate { handle: fh, offset, len, mode }
        }
        opcode::LSEEK => {
            let LseekIn { fh, offset, whence, .. } = input.read()?;
            Op::Lseek { handle: fh, offset, whence }
        }
        opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64 => {
            let copy: CopyFileRangeIn = input.read()?;
            Op::CopyFileRange {
                handle: copy.fh_in,
                offset: copy.offset_in,
                to_node: copy.node_out,
                to_handle: copy.fh_out,
                to_offset: copy.offset_out,
                len: copy.len,
                flags: copy.flags,
                is_wide: kind == opcode::COPY_FILE_RANGE_64,
            }
        }
        opcode::FLUSH => {
            let FlushIn { fh, lock_owner, .. } = input.read()?;
            Op::Flush { handle: fh, lock_owner }
        }
        opcode::FSYNC | opcode::FSYNCDIR => {
            let FsyncIn { fh: handle, flags, .. } = input.read()?;
            let data_only = flags & FSYNC_FDATASYNC != 0;
            match kind {
                opcode::FSYNC => Op::Fsync { handle, data_only },
                _ => Op::Fsyncdir { handle, data_only },
            }
        }
        opcode::RELEASE => {
            let ReleaseIn { fh, flags, release_flags, lock_owner } = input.read()?;
            let release_flags = ReleaseFlags::from_bits_retain(release_flags);
            Op::Release { handle: fh, flags, release_flags, lock_owner }
        }
        opcode::RELEASEDIR => Op::Releasedir { handle: input.read::<ReleaseIn>()?.fh },
        opcode::READDIR | opcode::READDIRPLUS => {
            let ReadIn { fh, offset, size, .. } = input.read()?;
            Op::Readdir { handle: fh, offset, size, plus: kind == opcode::READDIRPLUS }
        }
        opcode::STATFS => Op::Statfs,
        opcode::SYNCFS => Op::Syncfs,
        opcode::SETXATTR => set_xattr(input, session)?,
        opcode::GETXATTR => {
            let GetxattrIn { size, .. } = input.read()?;
            Op::Getxattr { name: input.string()?, size }
        }
        opcode::LISTXATTR => Op::Listxattr { size: input.read::<GetxattrIn>()?.size },
        opcode::REMOVEXATTR => Op::Removexattr { name: input.string()? },
        opcode::ACCESS => Op::Access { mask: input.read::<AccessIn>()?.mask },
        opcode::GETLK | opcode::SETLK | opcode::SETLKW => lock(kind, &input.read()?),
        opcode::INTERRUPT => Op::Interrupt { unique: input.read::<InterruptIn>()?.unique },
        opcode::INIT => {
            let InitIn { major, minor, max_readahead, flags } = input.read()?;
            let mut flags = InitFlags::from_bits_retain(flags.into());
            if flags.contains(InitFlags::INIT_EXT) {
                let InitInExt { flags2, .. } = input.read()?;
                flags |= InitFlags::from_bits_retain(u64::from(flags2) << 32);
            }
            Op::Init { major, minor, max_readahead, flags }
        }
        opcode::DESTROY => Op::Destroy,
        opcode::NOTIFY_REPLY => Op::NotifyReply,
        opcode => Op::Unknown { opcode },
    };
    Some(op)
}

fn set_attr(told: &SetattrIn) -> SetAttr {
    let valid = SetAttrFlags::from_bits_retain(told.valid);
    let time = |is_set, is_now, seconds, nanoseconds| match (
        valid.contains(is_set),
        valid.contains(is_now),
    ) {
        (false, _) => None,
        (true, true) => Some(SetTime::Now),
        (true, false) => Some(SetTime::At(Time { seconds, nanoseconds })),
    };
    SetAttr {
        handle: valid.contains(SetAttrFlags::FH).then_some(told.fh),
        mode: valid.contains(SetAttrFlags::MODE).then_some(told.mode),
        uid: valid.contains(SetAttrFlags::UID).then_some(told.uid),
        gid: valid.contains(SetAttrFlags::GID).then_some(told.gid),
        size: valid.contains(SetAttrFlags::SIZE).then_some(told.size),
        atime: time(SetAttrFlags::ATIME, SetAttrFlags::ATIME_NOW, told.atime, told.atime_ns),
        mtime: time(SetAttrFlags::MTIME, SetAttrFlags::MTIME_NOW, told.mtime, told.mtime_ns),
        kills_suidgid: valid.contains(SetAttrFlags::KILL_SUIDGID),
    }
}

fn set_xattr<'a>(mut input: Input<'a>, session: &Session) -> Option<Op<'a>> {
    let told = if session.flags.contains(InitFlags::SETXATTR_EXT) {
        input.read::<SetxattrInExt>()?
    } else {
        let SetxattrIn { size, flags } = input.read()?;
        SetxattrInExt { size, flags, ..SetxattrInExt::default() }
    };
    let name = input.string()?;
    let value = input.bytes(told.size)?;
    let kills_sgid = told.setxattr_flags & SETXATTR_ACL_KILL_SGID != 0;
    Some(Op::Setxattr { name, value, flags: told.flags, kills_sgid })
}

fn lock(kind: u32, told: &LockIn) -> Op<'static> {
    let &LockIn { fh: handle, owner, start, end, pid, flags, .. } = told;
    let lock = FileLock { start, end, kind: told.kind, pid };
    match kind {
        opcode::GETLK => Op::Getlk { handle, owner, lock },
        _ => Op::Setlk {
            handle,
            owner,
            lock,
            waits: kind == opcode::SETLKW,
            is_flock: flags & LK_FLOCK != 0,
        },
    }
}
