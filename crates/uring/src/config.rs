//! Configuration of a ring.

/// Settings of a [`crate::Ring`]; [`Config::default`] suits a server with a few thousand connections. A value outside
/// its range counts as the nearest inside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Places in the submission queue, 1 to 32,768; rounded up to a power of two. More operations than this may be
    /// in flight; it only bounds how many go to the kernel in one call. 1,024 by default.
    pub entries: u32,
    /// Most bytes of [`crate::IoBuf`] at once, rounded up to whole MiB. Used memory stays with the process, and is
    /// locked if `fixed_buffers` is on. 64 MiB by default.
    pub pool_bytes: usize,
    /// Receive buffers shared by all connections, 1 to 32,768, rounded up to a power of two. As many receives can end in one
    /// turn; further ones wait until a [`crate::ReceivedBuf`] is dropped. 128 by default.
    pub receive_buffers: u16,
    /// Bytes in each of them; also the most bytes that one receive brings. 32 KiB by default.
    pub receive_bytes: u32,
    /// Files and sockets to register with the kernel; more may be used, at a little more cost each. Lowered to the
    /// process's limit of open files. 0 turns it off. 4,096 by default.
    pub registered_files: u32,
    /// Whether buffers are registered when they are first used for a device. Saves pinning pages for each direct I/O;
    /// at most a quarter of the limit of locked memory (`ulimit -l`) is used for it, where that limit applies, and
    /// buffers beyond are used unregistered. On by default.
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

impl Config {
    /// With every setting inside its range.
    pub(crate) fn in_range(self) -> Config {
        let power = |count: u16| 1 << count.clamp(1, 1 << 15).next_power_of_two().ilog2();
        Config {
            entries: self.entries.clamp(1, 1 << 15),
            receive_buffers: power(self.receive_buffers),
            receive_bytes: self.receive_bytes.clamp(1, 1 << 30),
            ..self
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_brought_into_range() {
        let wild = Config { entries: 0, receive_buffers: 0, receive_bytes: 0, ..Config::default() };
        let tame = wild.in_range();
        assert_eq!((tame.entries, tame.receive_buffers, tame.receive_bytes), (1, 1, 1));
        for (given, used) in [(3, 4), (128, 128), (129, 256), (u16::MAX, 1 << 15)] {
            let config = Config { receive_buffers: given, ..Config::default() };
            assert_eq!(config.in_range().receive_buffers, used);
        }
        assert_eq!(Config::default().in_range(), Config::default());
    }
}
