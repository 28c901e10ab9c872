//! Negotiation of version, features and sizes: the first request of a mount.

use thiserror::Error;

use crate::flags::InitFlags;
use crate::op::Op;
use crate::reply::{InitReply, message};
use crate::wire::{InitOut, MAJOR, MINOR_MAX, MINOR_MIN, OUT_HEADER_LEN, OutHeader};

/// What a server would like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Features; those that the kernel does not offer are left out.
    pub flags: InitFlags,
    /// Features without which it does not work.
    pub needs: InitFlags,
    /// Most bytes of a WRITE, and with [`InitFlags::MAX_PAGES`] of a READ. The kernel has its own maximum, 1 MiB by default.
    pub request_bytes_max: u32,
    /// Most bytes that the kernel reads ahead.
    pub readahead_bytes_max: u32,
    /// Most requests that no program waits for, such as read-ahead, at the same time.
    pub background_max: u16,
    /// Of these, as many as make the kernel begin to hold back.
    pub congestion_threshold: u16,
    /// Unit of the times of files, nanoseconds.
    pub time_granularity_ns: u32,
    /// Seconds within which each request is answered, with [`InitFlags::REQUEST_TIMEOUT`]: else the kernel ends the mount.
    /// 0 promises nothing.
    pub request_timeout_s: u16,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes {
            flags: InitFlags::empty(),
            needs: InitFlags::empty(),
            request_bytes_max: 1 << 20,
            readahead_bytes_max: 128 << 10,
            background_max: 12,
            congestion_threshold: 9,
            time_granularity_ns: 1,
            request_timeout_s: 0,
        }
    }
}

/// What kernel and server agreed on; fixed until the end of the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Minor version.
    pub minor: u32,
    /// Features.
    pub flags: InitFlags,
    /// Most bytes of the data of a WRITE.
    pub write_bytes_max: u32,
}

impl Session {
    /// Bytes of a buffer into which every request fits.
    pub fn buffer_len(&self) -> usize {
        // Header, structure and names of any request fit in a page (FUSE_MIN_READ_BUFFER is two).
        4096 + (self.write_bytes_max as usize).max(4096)
    }
}

/// Reason why there is no agreement. To be answered with `EPROTO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InitError {
    /// The first request is another.
    #[error("the first request is not INIT")]
    NotInit,
    /// Another version of the protocol.
    #[error(
        "the kernel speaks version {major}.{minor}, and {MAJOR}.{MINOR_MIN} is needed (Linux 5.4)"
    )]
    Version {
        /// The kernel's.
        major: u32,
        /// The kernel's.
        minor: u32,
    },
    /// A feature is missing.
    #[error("the kernel does not offer {missing:?}")]
    Needs {
        /// Which.
        missing: InitFlags,
    },
}

/// Outcome of an INIT: the reply, and what holds afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Negotiation {
    /// Agreed.
    Done {
        /// To be sent.
        reply: InitReply,
        /// Holds from now on.
        session: Session,
    },
    /// The kernel speaks a newer major version, and asks again with ours after this reply.
    Again {
        /// To be sent.
        reply: InitReply,
    },
}

/// Answers the first request.
///
/// # Errors
/// [`InitError`], if there is nothing to agree on.
pub fn negotiate(unique: u64, op: &Op<'_>, wishes: &Wishes) -> Result<Negotiation, InitError> {
    let &Op::Init { major, minor, max_readahead, flags: offered } = op else {
        return Err(InitError::NotInit);
    };
    if major > MAJOR {
        let out = InitOut { major: MAJOR, minor: MINOR_MAX, ..InitOut::default() };
        return Ok(Negotiation::Again { reply: message(unique, out) });
    }
    if major < MAJOR || minor < MINOR_MIN {
        return Err(InitError::Version { major, minor });
    }
    let missing = wishes.needs - offered;
    if !missing.is_empty() {
        return Err(InitError::Needs { missing });
    }
    let mut flags = (wishes.flags | wishes.needs) & offered;
    // Without it the kernel ignores the upper half.
    flags |= offered & InitFlags::INIT_EXT;
    if !flags.contains(InitFlags::INIT_EXT) {
        flags &= InitFlags::from_bits_retain(u32::MAX.into());
    }
    let minor = minor.min(MINOR_MAX);
    // At least a page, or the kernel takes 4 KiB itself.
    let write_bytes_max = wishes.request_bytes_max.max(4096);
    let timeout = flags.contains(InitFlags::REQUEST_TIMEOUT);
    let out = InitOut {
        major: MAJOR,
        minor,
        max_readahead: max_readahead.min(wishes.readahead_bytes_max),
        flags: flags.bits() as u32,
        max_background: wishes.background_max,
        congestion_threshold: wishes.congestion_threshold,
        max_write: write_bytes_max,
        time_gran: wishes.time_granularity_ns,
        max_pages: u16::try_from(write_bytes_max.div_ceil(4096)).unwrap_or(u16::MAX),
        flags2: (flags.bits() >> 32) as u32,
        request_timeout: if timeout { wishes.request_timeout_s } else { 0 },
        ..InitOut::default()
    };
    let session = Session { minor, flags, write_bytes_max };
    Ok(Negotiation::Done { reply: message(unique, out), session })
}

/// What a server says in a reply to INIT, for clients and tests.
///
/// `None` for another message.
pub fn read_reply(message: &[u8]) -> Option<(OutHeader, InitOut)> {
    use zerocopy::FromBytes;
    let header = OutHeader::read_from_bytes(message.get(..OUT_HEADER_LEN)?).ok()?;
    let out = InitOut::read_from_bytes(message.get(OUT_HEADER_LEN..)?).ok()?;
    Some((header, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(major: u32, minor: u32, flags: InitFlags) -> Op<'static> {
        Op::Init { major, minor, max_readahead: 1 << 17, flags }
    }

    #[test]
    fn what_both_want_is_agreed_on() {
        let offered = InitFlags::INIT_EXT | InitFlags::HAS_RESEND | InitFlags::POSIX_ACL;
        let wishes = Wishes {
            flags: InitFlags::POSIX_ACL | InitFlags::HAS_RESEND | InitFlags::PASSTHROUGH,
            request_timeout_s: 5,
            ..Wishes::default()
        };
        let Ok(Negotiation::Done { reply, session }) = negotiate(7, &init(7, 60, offered), &wishes)
        else {
            panic!("no agreement");
        };
        assert_eq!(session.minor, MINOR_MAX);
        assert_eq!(session.flags, offered);
        let (header, out) = read_reply(&reply).unwrap();
        assert_eq!((header.len, header.error, header.unique), (80, 0, 7));
        assert_eq!(out.flags2, 1 << (39 - 32));
        assert_eq!(out.max_pages, 256);
        assert_eq!(out.request_timeout, 0, "not offered");
    }

    #[test]
    fn without_the_extension_the_upper_flags_are_not_agreed_on() {
        let wishes = Wishes { flags: InitFlags::HAS_RESEND, ..Wishes::default() };
        let offered = InitFlags::HAS_RESEND;
        let Ok(Negotiation::Done { session, .. }) = negotiate(1, &init(7, 31, offered), &wishes)
        else {
            panic!("no agreement");
        };
        assert_eq!(session.flags, InitFlags::empty());
    }

    #[test]
    fn another_version_is_asked_for_or_refused() {
        let wishes = Wishes { needs: InitFlags::ASYNC_DIO, ..Wishes::default() };
        let none = InitFlags::empty();
        let negotiate = |op: &Op<'_>| negotiate(1, op, &wishes);
        assert!(matches!(negotiate(&init(8, 0, none)), Ok(Negotiation::Again { .. })));
        assert_eq!(negotiate(&init(7, 30, none)), Err(InitError::Version { major: 7, minor: 30 }));
        assert_eq!(
            negotiate(&init(7, 31, none)),
            Err(InitError::Needs { missing: InitFlags::ASYNC_DIO })
        );
        assert_eq!(negotiate(&Op::Destroy), Err(InitError::NotInit));
    }
}
