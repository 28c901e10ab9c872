//! Restrictions of a ring (`IORING_REGISTER_RESTRICTIONS`, Linux 5.10): the kernel refuses all operations, flags and
//! registrations that this crate never uses, with `EACCES`.
//!
//! A filter of system calls (seccomp) does not see what a ring does. So a ring must not open a file or connect a socket,
//! whatever its entries have become.

use io_uring::opcode;
use io_uring::register::Restriction;
use io_uring::squeue::Flags;

/// Registrations of a ring that is enabled, by their numbers in io_uring_register(2): `IORING_UNREGISTER_FILES`,
/// `IORING_REGISTER_FILES_UPDATE` and `IORING_REGISTER_BUFFERS_UPDATE`.
const REGISTRATIONS: [u8; 3] = [3, 6, 16];

/// All that `Op::entry` and `Core::cancel_all` make.
const OPERATIONS: [u8; 12] = [
    opcode::Recv::CODE,
    opcode::SendMsg::CODE,
    opcode::PollAdd::CODE,
    opcode::AsyncCancel2::CODE,
    opcode::ReadFixed::CODE,
    opcode::Read::CODE,
    opcode::WriteFixed::CODE,
    opcode::Write::CODE,
    opcode::Fsync::CODE,
    opcode::Fallocate::CODE,
    opcode::Fadvise::CODE,
    opcode::UringCmd16::CODE,
];

/// What a ring is restricted to.
pub(crate) fn all() -> Vec<Restriction> {
    let flags = Flags::FIXED_FILE | Flags::BUFFER_SELECT;
    let operations = OPERATIONS.into_iter().map(Restriction::sqe_op);
    let registrations = REGISTRATIONS.into_iter().map(Restriction::register_op);
    operations.chain(registrations).chain([Restriction::sqe_flags_allowed(flags.bits())]).collect()
}
