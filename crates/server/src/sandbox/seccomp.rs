//! Seccomp: system calls that this program does not make fail. Two filters: one of calls, and one of arguments.
//!
//! A call that is not listed fails with `ENOSYS`, as on a kernel that does not have it: a C library that is newer than
//! this list then takes the older way. A refused argument fails with `EPERM`. Neither kills: a tenant's disk is worth
//! more than the end of a process that can do little any more.
//!
//! Operations of a ring pass no filter: `weir_uring` restricts rings.

use libc::{
    AF_INET, AF_INET6, AF_UNIX, AF_VSOCK, CLONE_THREAD, PR_GET_NAME, PR_SET_NAME,
    PR_SET_NO_NEW_PRIVS, PROT_EXEC, c_long,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

/// Calls of this program and its libraries, of glibc and musl, under load, while it is changed, and at its end.
const CALLS: &[c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads and time. No clone3, whose flags a filter cannot see: C libraries use clone then.
    libc::SYS_clone,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_membarrier,
    libc::SYS_nanosleep,
    libc::SYS_prctl,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_setpriority,
    // Signals, to this process.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    // Users, limits, machine.
    libc::SYS_capget,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // Descriptors and events.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    // Files. What may be opened is Landlock's.
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_linkat,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_readlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    // Sockets.
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socket,
    libc::SYS_socketpair,
];

/// The same under older numbers, which later architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER_CALLS: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_lchown,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_CALLS: &[c_long] = &[];

/// `ioctl` of terminals, descriptors and block devices, as in asm-generic/ioctls.h and linux/fs.h: the same numbers on
/// x86-64, AArch64 and RISC-V. Not among them: TIOCSTI, which types into the terminal that a server was started from.
const IOCTLS: [u32; 7] = [
    0x5401,      // TCGETS
    0x5413,      // TIOCGWINSZ
    0x5421,      // FIONBIO
    0x5451,      // FIOCLEX
    0x541b,      // FIONREAD
    0x1268,      // BLKSSZGET
    0x8008_1272, // BLKGETSIZE64
];

/// `prctl` of names, of threads and of memory that malloc maps (`PR_SET_VMA`); of what the kernel told the program at its
/// start (`PR_GET_AUXV`); and the one that each filter begins with.
const PRCTLS: [u32; 5] =
    [PR_SET_NAME as u32, PR_GET_NAME as u32, 0x5356_4d41, 0x4155_5856, PR_SET_NO_NEW_PRIVS as u32];

/// Families of sockets: clients, the journal, the service manager.
const FAMILIES: [u32; 4] = [AF_UNIX as u32, AF_INET as u32, AF_INET6 as u32, AF_VSOCK as u32];

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
pub(super) enum SeccompError {
    /// There is none for this architecture, or none can be made.
    #[error("no filter for this machine: {0}")]
    Filter(#[from] BackendError),
    /// The kernel does not take it.
    #[error("the kernel refuses the filter: {0}")]
    Kernel(#[from] seccompiler::Error),
}

/// Filters the calls of all threads of the process.
pub(super) fn enter() -> Result<(), SeccompError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    // The one of calls last: with it no other can come.
    for filter in [arguments(architecture)?, calls(architecture)?] {
        seccompiler::apply_filter_all_threads(&filter)?;
    }
    Ok(())
}

/// Refuses calls that are not listed.
fn calls(architecture: TargetArch) -> Result<BpfProgram, BackendError> {
    let listed = CALLS.iter().chain(OLDER_CALLS).map(|call| (*call, Vec::new()));
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(listed.collect(), unknown, SeccompAction::Allow, architecture)?.try_into()
}

/// Refuses arguments of calls that are listed.
fn arguments(architecture: TargetArch) -> Result<BpfProgram, BackendError> {
    let process = std::process::id();
    let (executable, thread) = (PROT_EXEC as u32, CLONE_THREAD as u32);
    let rules = [
        (libc::SYS_socket, vec![none_of(0, &FAMILIES)?]),
        (libc::SYS_socketpair, vec![none_of(0, &FAMILIES)?]),
        (libc::SYS_ioctl, vec![none_of(1, &IOCTLS)?]),
        (libc::SYS_prctl, vec![none_of(0, &PRCTLS)?]),
        // Another process.
        (libc::SYS_tgkill, vec![none_of(0, &[process])?]),
        (libc::SYS_prlimit64, vec![none_of(0, &[0, process])?]),
        // A new process, rather than a thread.
        (libc::SYS_clone, vec![bits(0, thread, 0)?]),
        (libc::SYS_mmap, vec![bits(2, executable, executable)?]),
        (libc::SYS_mprotect, vec![bits(2, executable, executable)?]),
    ];
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let rules = rules.into_iter().collect();
    SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture)?.try_into()
}

/// An argument that has none of these values.
fn none_of(argument: u8, values: &[u32]) -> Result<SeccompRule, BackendError> {
    let conditions = values.iter().map(|value| condition(argument, SeccompCmpOp::Ne, *value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// An argument that has `value` in the bits of `mask`.
fn bits(argument: u8, mask: u32, value: u32) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![condition(argument, SeccompCmpOp::MaskedEq(mask.into()), value)?])
}

fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u32,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value.into())
}
