//! Error numbers of the transmission phase, and the one place where errno becomes one of them.

use std::fmt;

use crate::command::Op;

/// An error a reply may carry; the discriminant is the number on the wire.
///
/// The protocol allows these eight only; a client treats anything else as `Invalid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ErrorCode {
    /// `NBD_EPERM`: a write to a read-only export.
    NotPermitted = 1,
    /// `NBD_EIO`: the device failed.
    Io = 5,
    /// `NBD_ENOMEM`: the server has no memory; the protocol asks not to use it if at all possible.
    NoMemory = 12,
    /// `NBD_EINVAL`: the request makes no sense here.
    Invalid = 22,
    /// `NBD_ENOSPC`: a write past the end, or a full device.
    NoSpace = 28,
    /// `NBD_EOVERFLOW`: longer than the server answers at once.
    Overflow = 75,
    /// `NBD_ENOTSUP`: a fast zero that would not be fast.
    NotSupported = 95,
    /// `NBD_ESHUTDOWN`: the server is going away.
    Shutdown = 108,
}

impl ErrorCode {
    /// The number on the wire.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// What a received number means; an unexpected one counts as [`ErrorCode::Invalid`], as the
    /// protocol asks of clients. 0 is no error and gives `None`.
    pub fn from_number(number: u32) -> Option<ErrorCode> {
        Some(match number {
            0 => return None,
            1 => ErrorCode::NotPermitted,
            5 => ErrorCode::Io,
            12 => ErrorCode::NoMemory,
            28 => ErrorCode::NoSpace,
            75 => ErrorCode::Overflow,
            95 => ErrorCode::NotSupported,
            108 => ErrorCode::Shutdown,
            _ => ErrorCode::Invalid,
        })
    }

    /// The error to send when carrying out `op` failed with a Linux `errno` (positive).
    ///
    /// `op` matters: the protocol keeps "not supported" for fast zeroing and "overflow" for
    /// unfragmented reads, elsewhere both become `Invalid`. Numbers without a counterpart, 0 and
    /// negative ones included, are `Io`: something below us failed.
    pub fn from_errno(errno: i32, op: Op) -> ErrorCode {
        // Linux values (asm-generic/errno*.h): this crate knows no operating system.
        match errno {
            1 | 13 | 30 => ErrorCode::NotPermitted, // EPERM EACCES EROFS
            12 => ErrorCode::NoMemory,              // ENOMEM
            22 => ErrorCode::Invalid,               // EINVAL
            27 | 28 | 122 => ErrorCode::NoSpace,    // EFBIG ENOSPC EDQUOT
            75 => match op {
                Op::Read { whole: true } => ErrorCode::Overflow,
                _ => ErrorCode::Invalid,
            },
            95 => match op {
                Op::WriteZeroes { fast: true, .. } => ErrorCode::NotSupported,
                _ => ErrorCode::Invalid,
            },
            108 => ErrorCode::Shutdown, // ESHUTDOWN
            _ => ErrorCode::Io,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorCode::NotPermitted => "operation not permitted",
            ErrorCode::Io => "input/output error",
            ErrorCode::NoMemory => "cannot allocate memory",
            ErrorCode::Invalid => "invalid argument",
            ErrorCode::NoSpace => "no space left on device",
            ErrorCode::Overflow => "value too large",
            ErrorCode::NotSupported => "operation not supported",
            ErrorCode::Shutdown => "server is shutting down",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Op = Op::Read { whole: false };

    #[test]
    fn numbers_go_both_ways() {
        use ErrorCode::*;
        for code in [NotPermitted, Io, NoMemory, Invalid, NoSpace, Overflow, NotSupported, Shutdown]
        {
            assert_eq!(ErrorCode::from_number(code.number()), Some(code));
        }
        assert_eq!(ErrorCode::from_number(0), None);
        assert_eq!(ErrorCode::from_number(4711), Some(Invalid));
    }

    #[test]
    fn errno_becomes_what_the_protocol_allows_for_the_operation() {
        let fast = Op::WriteZeroes { no_hole: false, fast: true };
        let slow = Op::WriteZeroes { no_hole: false, fast: false };
        for (errno, op, code) in [
            (5, READ, ErrorCode::Io),
            (121, READ, ErrorCode::Io), // EREMOTEIO
            (0, READ, ErrorCode::Io),
            (-5, READ, ErrorCode::Io),
            (30, Op::Write, ErrorCode::NotPermitted),
            (28, Op::Write, ErrorCode::NoSpace),
            (122, Op::Write, ErrorCode::NoSpace),
            (27, Op::Write, ErrorCode::NoSpace),
            (95, fast, ErrorCode::NotSupported),
            (95, slow, ErrorCode::Invalid),
            (95, Op::Trim, ErrorCode::Invalid),
            (75, Op::Read { whole: true }, ErrorCode::Overflow),
            (75, READ, ErrorCode::Invalid),
        ] {
            assert_eq!(ErrorCode::from_errno(errno, op), code, "errno {errno} of {op:?}");
        }
    }
}
