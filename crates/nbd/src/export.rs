//! Exports, as far as the negotiation knows them.

use crate::wire::STRING_MAX;

/// The server's own name for an export, opaque here: it comes back in [`crate::Negotiated`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExportId(pub u32);

/// One export as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Comes back when a client has chosen this export. Two names with one id are one export.
    pub id: ExportId,
    /// Canonical name, UTF-8 without NUL, at most 4096 bytes; the empty name is the default export.
    pub name: String,
    /// For a person to read; empty for none, at most 4096 bytes.
    pub description: String,
    /// Bytes. Fixed for the life of a connection.
    pub size: u64,
    /// What clients may do with it.
    pub features: Features,
    /// Sizes of requests it takes.
    pub block_sizes: BlockSizes,
}

/// Why a connection may not use an export, in words for its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// It may not, whatever it does.
    Policy(&'static str),
    /// It might with a certificate: one that could still start TLS is told so.
    Certificate(&'static str),
}

/// The exports of a server, asked during the handshake only.
pub trait Exports {
    /// The export a client asks for by `name`, at most 4096 bytes; `""` asks for the default one.
    fn find(&self, name: &str) -> Option<&Export>;

    /// Calls `visit` for every export that a client may see in a listing.
    fn list(&self, visit: &mut dyn FnMut(&Export));

    /// Whether this connection may use `export`; asked before it is told anything about it.
    ///
    /// # Errors
    /// It may not: the option is refused by policy, or because it takes TLS, and `EXPORT_NAME` ends the connection.
    fn may_use(&self, _export: &Export) -> Result<(), Denial> {
        Ok(())
    }

    /// What this connection may do with `export`.
    fn features(&self, export: &Export) -> Features {
        export.features
    }

    /// A client has chosen `export` for transmission, and is told nothing yet: whether it may, or words why not.
    ///
    /// # Errors
    /// It may not: the option is refused by policy, and `EXPORT_NAME`, which has no refusal, ends the connection.
    fn admit(&self, _export: &Export) -> Result<(), &'static str> {
        Ok(())
    }
}

/// Looks through the slice in order: for a handful of exports, and for tests.
impl Exports for [Export] {
    fn find(&self, name: &str) -> Option<&Export> {
        self.iter().find(|export| export.name == name)
    }

    fn list(&self, visit: &mut dyn FnMut(&Export)) {
        self.iter().for_each(visit);
    }
}

/// See the slice it derefs to.
impl Exports for Vec<Export> {
    fn find(&self, name: &str) -> Option<&Export> {
        self.as_slice().find(name)
    }

    fn list(&self, visit: &mut dyn FnMut(&Export)) {
        self.as_slice().list(visit);
    }
}

/// What an export can do; each becomes a transmission flag. All false is a plain writable export.
///
/// On a read-only export `trim`, `write_zeroes` and `fast_zero` are not advertised, and
/// `fast_zero` is not without `write_zeroes`: the protocol forbids both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Every write is refused.
    pub read_only: bool,
    /// FLUSH reaches stable storage.
    pub flush: bool,
    /// The FUA flag is honoured.
    pub fua: bool,
    /// Seeks cost time: a hint for the client's own scheduler.
    pub rotational: bool,
    /// TRIM is taken.
    pub trim: bool,
    /// WRITE_ZEROES is taken, with and without NO_HOLE.
    pub write_zeroes: bool,
    /// WRITE_ZEROES knows FAST_ZERO, if only to refuse it quickly.
    pub fast_zero: bool,
    /// A flush on one connection covers the writes of all: clients may open several.
    pub multi_conn: bool,
    /// CACHE is taken.
    pub cache: bool,
}

impl Features {
    /// The flags to advertise. `structured` replies, once negotiated, bring unfragmented reads.
    pub fn transmission_flags(self, structured: bool) -> TransmissionFlags {
        use TransmissionFlags as T;
        let writable = !self.read_only;
        let bits = [
            (true, T::HAS_FLAGS),
            (self.read_only, T::READ_ONLY),
            (self.flush, T::FLUSH),
            (self.fua, T::FUA),
            (self.rotational, T::ROTATIONAL),
            (self.trim && writable, T::TRIM),
            (self.write_zeroes && writable, T::WRITE_ZEROES),
            (structured, T::DF),
            (self.multi_conn, T::MULTI_CONN),
            (self.cache, T::CACHE),
            (self.fast_zero && self.write_zeroes && writable, T::FAST_ZERO),
        ];
        T(bits.iter().filter(|(on, _)| *on).fold(0, |all, (_, flag)| all | flag.0))
    }
}

/// The 16 bits a server sends about an export (`NBD_FLAG_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransmissionFlags(pub u16);

impl TransmissionFlags {
    /// Always set.
    pub const HAS_FLAGS: TransmissionFlags = TransmissionFlags(1 << 0);
    /// Writes will be refused.
    pub const READ_ONLY: TransmissionFlags = TransmissionFlags(1 << 1);
    /// FLUSH is there.
    pub const FLUSH: TransmissionFlags = TransmissionFlags(1 << 2);
    /// The FUA flag is there.
    pub const FUA: TransmissionFlags = TransmissionFlags(1 << 3);
    /// Seeks cost time.
    pub const ROTATIONAL: TransmissionFlags = TransmissionFlags(1 << 4);
    /// TRIM is there.
    pub const TRIM: TransmissionFlags = TransmissionFlags(1 << 5);
    /// WRITE_ZEROES is there.
    pub const WRITE_ZEROES: TransmissionFlags = TransmissionFlags(1 << 6);
    /// The DF flag is there; only with structured replies.
    pub const DF: TransmissionFlags = TransmissionFlags(1 << 7);
    /// Several connections see one cache.
    pub const MULTI_CONN: TransmissionFlags = TransmissionFlags(1 << 8);
    /// CACHE is there.
    pub const CACHE: TransmissionFlags = TransmissionFlags(1 << 10);
    /// The FAST_ZERO flag is there.
    pub const FAST_ZERO: TransmissionFlags = TransmissionFlags(1 << 11);
    /// BLOCK_STATUS takes a payload that names contexts; only with extended headers.
    pub const BLOCK_STATUS_PAYLOAD: TransmissionFlags = TransmissionFlags(1 << 12);

    /// These and those.
    pub fn with(self, flags: TransmissionFlags) -> TransmissionFlags {
        TransmissionFlags(self.0 | flags.0)
    }

    /// Whether every bit of `flags` is set.
    pub fn contains(self, flags: TransmissionFlags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// Sizes of requests an export takes, in bytes. A value that exists is one the protocol allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    minimum: u32,
    preferred: u32,
    maximum: u32,
}

impl BlockSizes {
    /// Any byte range, 4096 preferred, payloads up to 32 MiB: what a client may assume unasked.
    pub const DEFAULT: BlockSizes =
        BlockSizes { minimum: 1, preferred: 4096, maximum: 32 * 1024 * 1024 };

    /// `minimum` is the granularity of offset and length, a power of two up to 65,536; `preferred`
    /// a power of two no less than it and 512; `maximum` the longest payload of a read or write,
    /// no less than `preferred`.
    ///
    /// # Errors
    /// Names the value that breaks its rule.
    pub fn new(minimum: u32, preferred: u32, maximum: u32) -> Result<BlockSizes, BlockSizeError> {
        if !minimum.is_power_of_two() || minimum > 65_536 {
            return Err(BlockSizeError::Minimum { minimum });
        }
        let preferred_min = minimum.max(512);
        if !preferred.is_power_of_two() || preferred < preferred_min {
            return Err(BlockSizeError::Preferred { preferred, preferred_min });
        }
        if maximum < preferred {
            return Err(BlockSizeError::Maximum { maximum, preferred });
        }
        Ok(BlockSizes { minimum, preferred, maximum })
    }

    /// What is enforced for a client that was not told: any byte range, and payloads of at least what every client may
    /// send.
    pub fn untold(self) -> BlockSizes {
        let maximum = self.maximum.max(BlockSizes::DEFAULT.maximum);
        BlockSizes { minimum: 1, preferred: self.preferred, maximum }
    }

    /// Granularity of offset and length.
    pub fn minimum(self) -> u32 {
        self.minimum
    }

    /// Requests of multiples of this run best.
    pub fn preferred(self) -> u32 {
        self.preferred
    }

    /// Longest payload of a read or write.
    pub fn maximum(self) -> u32 {
        self.maximum
    }
}

impl Default for BlockSizes {
    fn default() -> BlockSizes {
        BlockSizes::DEFAULT
    }
}

/// Block sizes the protocol forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockSizeError {
    /// See [`BlockSizes::new`].
    #[error("minimum block size {minimum} bytes: must be a power of two from 1 to 65536")]
    Minimum {
        /// What was asked.
        minimum: u32,
    },
    /// See [`BlockSizes::new`].
    #[error(
        "preferred block size {preferred} bytes: must be a power of two, at least {preferred_min}"
    )]
    Preferred {
        /// What was asked.
        preferred: u32,
        /// The larger of 512 and the minimum.
        preferred_min: u32,
    },
    /// See [`BlockSizes::new`].
    #[error("maximum payload {maximum} bytes: must be at least the preferred {preferred}")]
    Maximum {
        /// What was asked.
        maximum: u32,
        /// The least that is allowed.
        preferred: u32,
    },
}

/// The start of `text` that fits a protocol string, cut between characters.
pub(crate) fn clip(text: &str) -> &str {
    let mut end = text.len().min(STRING_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_follow_the_features() {
        use TransmissionFlags as T;
        let all = Features {
            read_only: false,
            flush: true,
            fua: true,
            rotational: true,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            multi_conn: true,
            cache: true,
        };
        assert_eq!(all.transmission_flags(true).0, 0b1101_1111_1101);
        assert!(!all.transmission_flags(false).contains(T::DF));
        let read_only = Features { read_only: true, ..all }.transmission_flags(false);
        assert!(read_only.contains(T::READ_ONLY));
        assert_eq!(read_only.0 & (T::TRIM.0 | T::WRITE_ZEROES.0 | T::FAST_ZERO.0), 0);
        let no_zeroes = Features { write_zeroes: false, ..all }.transmission_flags(false);
        assert!(!no_zeroes.contains(T::FAST_ZERO));
        assert_eq!(Features::default().transmission_flags(false), T::HAS_FLAGS);
    }

    #[test]
    fn block_sizes_keep_the_rules() {
        let default = BlockSizes::DEFAULT;
        assert_eq!(BlockSizes::new(1, 4096, 32 << 20), Ok(default));
        for bad in [0, 3, 131_072] {
            let error = BlockSizes::new(bad, 1 << 20, 1 << 20);
            assert_eq!(error, Err(BlockSizeError::Minimum { minimum: bad }));
        }
        assert!(BlockSizes::new(1, 256, 4096).is_err());
        assert!(BlockSizes::new(4096, 2048, 4096).is_err());
        assert!(BlockSizes::new(512, 512, 511).is_err());
        assert!(BlockSizes::new(65_536, 65_536, u32::MAX).is_ok());
    }

    #[test]
    fn clip_cuts_between_characters() {
        let text = "ä".repeat(3000);
        assert_eq!(clip(&text).len(), 4096);
        assert_eq!(clip(&format!("x{text}")).len(), 4095);
        assert_eq!(clip("short"), "short");
    }
}
