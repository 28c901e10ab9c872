//! How a ring is set up.

/// Settings of a [`crate::Ring`]; [`Config::default`] suits a server with a few thousand connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Places in the submission queue, 1 to 32,768; rounded up to a power of two. More operations than this may be
    /// in flight; it only bounds how many go to the kernel in one call. 1,024 by default.
    pub entries: u32,
    /// Most bytes of [`crate::IoBuf`] at once, rounded up to whole MiB. Used memory stays with the process, and is
    /// locked if `fixed_buffers` is on. 64 MiB by default.
    pub pool_bytes: usize,
    /// Receive buffers shared by all connections, a power of two from 1 to 32,768. As many receives can end in one
    /// turn; further ones wait until a [`crate::ReceivedBuf`] is dropped. 128 by default.
    pub receive_buffers: u16,
    /// Bytes in each of them; also the most bytes that one receive brings. 32 KiB by default.
    pub receive_bytes: u32,
    /// Files and sockets to register with the kernel; more may be used, at a little more cost each. Lowered to the
    /// process's limit of open files. 0 turns it off. 4,096 by default.
    pub registered_files: u32,
    /// Whether buffers are registered when they are first used for a device. Saves pinning pages for each direct I/O;
    /// where the limit of locked memory (`ulimit -l`) forbids it, buffers are used unregistered. On by default.
    pub fixed_buffers: bool,
    /// How completions are delivered. [`Setup::Auto`] by default.
    pub setup: Setup,
}

/// How the kernel runs the second half of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setup {
    /// In the thread that owns the ring, when it asks (SINGLE_ISSUER and DEFER_TASKRUN, Linux 6.1), else as `Plain`.
    Auto,
    /// By interrupting the thread, as every kernel can. For comparison and tests.
    Plain,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            entries: 1024,
            pool_bytes: 64 << 20,
            receive_buffers: 128,
            receive_bytes: 32 << 10,
            registered_files: 4096,
            fixed_buffers: true,
            setup: Setup::Auto,
        }
    }
}
