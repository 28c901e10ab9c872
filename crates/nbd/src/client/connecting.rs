//! The handshake, client side.

use std::mem;

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::context::{Context, Contexts};
use crate::export::{BlockSizes, TransmissionFlags};
use crate::partial::Partial;
use crate::wire::{
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, Greeting, INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC,
    OptionHeader, OptionReply, STRING_MAX, info, opt, rep,
};

/// Longest option reply that is read, in bytes: a string of full length and its fixed fields.
const REPLY_MAX: usize = STRING_MAX + 64;

/// What a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Name of the export, at most 4096 bytes; empty for the server's default one.
    pub export: String,
    /// Structured replies, if the server has them.
    pub structured_replies: bool,
    /// Extended headers, if the server has them; where it has not, structured replies if those are wished for.
    pub extended_headers: bool,
    /// Metadata contexts, those that the server has; they need structured replies or extended headers.
    pub contexts: Contexts,
}

/// What a server granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Bytes of the export.
    pub size: u64,
    /// What the server offers.
    pub flags: TransmissionFlags,
    /// Sizes to keep to; the protocol's defaults when the server told none.
    pub block_sizes: BlockSizes,
    /// Whether requests and replies have extended headers.
    pub extended_headers: bool,
    /// Whether replies are made of chunks: with extended headers, or structured replies.
    pub structured_replies: bool,
    /// The server's ids of the metadata contexts that it granted, in the order of [`Context::ALL`].
    pub contexts: [Option<u32>; Context::ALL.len()],
}

impl Connected {
    /// The server's id of `context`, if it was granted.
    pub fn context_id(&self, context: Context) -> Option<u32> {
        self.contexts[context as usize]
    }

    /// The contexts that were granted.
    pub fn granted(&self) -> Contexts {
        Context::ALL.into_iter().filter(|&context| self.context_id(context).is_some()).collect()
    }
}

/// What came of a piece of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectProgress {
    /// Bytes of the input that are done with; after `connected` the rest belongs to [`super::Client`].
    pub consumed: usize,
    /// Set when the handshake is done.
    pub connected: Option<Connected>,
}

/// Why a client cannot connect; close the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// No NBD server, or one too old.
    #[error("not a server of fixed newstyle NBD")]
    NotNbd,
    /// An option reply makes no sense.
    #[error("malformed reply of {len} bytes, type {kind:#x}, to option {option}")]
    BadReply {
        /// The option.
        option: u32,
        /// The reply's type.
        kind: u32,
        /// Its length.
        len: u32,
    },
    /// The server will not give the export.
    #[error("server refused the export with {kind:#x}: {message}")]
    Refused {
        /// One of [`rep`].
        kind: u32,
        /// The server's words, or nothing.
        message: String,
    },
}

/// The handshake of one connection, from the server's greeting to the export.
#[derive(Debug)]
pub struct Connecting {
    wishes: Wishes,
    expect: Expect,
    partial: Partial,
    extended_headers: bool,
    structured_replies: bool,
    contexts: [Option<u32>; Context::ALL.len()],
    export: Option<(u64, TransmissionFlags)>,
    block_sizes: BlockSizes,
}

#[derive(Clone, Copy, Debug)]
enum Expect {
    Greeting,
    /// Head of a reply to this option.
    Head {
        option: u32,
    },
    /// Data of that reply.
    Data {
        option: u32,
        kind: u32,
        len: u32,
    },
}

impl Connecting {
    /// Starts; the server speaks first.
    pub fn new(wishes: Wishes) -> Connecting {
        Connecting {
            wishes,
            expect: Expect::Greeting,
            partial: Partial::default(),
            extended_headers: false,
            structured_replies: false,
            contexts: [None; Context::ALL.len()],
            export: None,
            block_sizes: BlockSizes::DEFAULT,
        }
    }

    /// Takes what the server sent, split or joined in any way; appends what to send to `out`.
    ///
    /// # Errors
    /// When the server refuses the export, or speaks something else.
    pub fn handle_input(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<ConnectProgress, ConnectError> {
        let mut rest = input;
        loop {
            let wanted = match self.expect {
                Expect::Greeting => size_of::<Greeting>(),
                Expect::Head { .. } => size_of::<OptionReply>(),
                Expect::Data { len, .. } => len as usize,
            };
            let mut partial = mem::take(&mut self.partial);
            let step = partial.gather(&mut rest, wanted, |message| self.message(message, out));
            self.partial = partial;
            let Some(step) = step else {
                return Ok(ConnectProgress { consumed: input.len(), connected: None });
            };
            let connected = step?;
            if connected.is_some() {
                return Ok(ConnectProgress { consumed: input.len() - rest.len(), connected });
            }
        }
    }

    fn message(
        &mut self,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Connected>, ConnectError> {
        match self.expect {
            Expect::Greeting => {
                let greeting =
                    Greeting::read_from_bytes(message).map_err(|_| ConnectError::NotNbd)?;
                let magics = (greeting.init_magic.get(), greeting.option_magic.get());
                let flags = greeting.flags.get() & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
                if magics != (INIT_MAGIC, OPTION_MAGIC) || flags & FLAG_FIXED_NEWSTYLE == 0 {
                    return Err(ConnectError::NotNbd);
                }
                out.extend_from_slice(&u32::from(flags).to_be_bytes());
                if self.wishes.extended_headers {
                    self.ask(opt::EXTENDED_HEADERS, &[], out);
                } else if self.wishes.structured_replies {
                    self.ask(opt::STRUCTURED_REPLY, &[], out);
                } else {
                    self.go(out);
                }
                Ok(None)
            }
            Expect::Head { option } => {
                let head =
                    OptionReply::read_from_bytes(message).map_err(|_| ConnectError::NotNbd)?;
                if head.magic.get() != OPTION_REPLY_MAGIC || head.option.get() != option {
                    return Err(ConnectError::NotNbd);
                }
                let (kind, len) = (head.kind.get(), head.len.get());
                if len as usize > REPLY_MAX {
                    return Err(ConnectError::BadReply { option, kind, len });
                }
                self.expect = Expect::Data { option, kind, len };
                Ok(None)
            }
            Expect::Data { option, kind, .. } => {
                self.expect = Expect::Head { option };
                self.reply(option, kind, message, out)
            }
        }
    }

    fn reply(
        &mut self,
        option: u32,
        kind: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Connected>, ConnectError> {
        let bad = || ConnectError::BadReply { option, kind, len: data.len() as u32 };
        let last = kind == rep::ACK || kind & rep::ERROR_BIT != 0;
        match (option, kind) {
            (opt::EXTENDED_HEADERS, _)
                if last && kind != rep::ACK && self.wishes.structured_replies =>
            {
                self.ask(opt::STRUCTURED_REPLY, &[], out);
            }
            (opt::EXTENDED_HEADERS | opt::STRUCTURED_REPLY, _) if last => {
                self.structured_replies = kind == rep::ACK;
                self.extended_headers = self.structured_replies && option == opt::EXTENDED_HEADERS;
                if self.structured_replies && !self.wishes.contexts.is_empty() {
                    self.set_meta_context(out);
                } else {
                    self.go(out);
                }
            }
            (opt::SET_META_CONTEXT, rep::META_CONTEXT) => {
                let (id, name) = data.split_first_chunk().ok_or_else(bad)?;
                let known =
                    self.wishes.contexts.iter().find(|known| known.name().as_bytes() == name);
                if let Some(context) = known {
                    self.contexts[context as usize] = Some(u32::from_be_bytes(*id));
                }
            }
            (opt::SET_META_CONTEXT, _) if last => {
                if kind != rep::ACK {
                    self.contexts = [None; Context::ALL.len()];
                }
                self.go(out);
            }
            (opt::GO, rep::INFO) => self.info(data).ok_or_else(bad)?,
            (opt::GO, rep::ACK) => {
                let (size, flags) = self.export.ok_or_else(bad)?;
                return Ok(Some(Connected {
                    size,
                    flags,
                    block_sizes: self.block_sizes,
                    extended_headers: self.extended_headers,
                    structured_replies: self.structured_replies,
                    contexts: self.contexts,
                }));
            }
            (opt::GO, _) if last => {
                let message = String::from_utf8_lossy(data).into_owned();
                return Err(ConnectError::Refused { kind, message });
            }
            _ => return Err(bad()),
        }
        Ok(None)
    }

    /// `None` when the information is malformed; kinds we did not ask for are passed over.
    fn info(&mut self, data: &[u8]) -> Option<()> {
        let (kind, data) = data.split_first_chunk()?;
        match u16::from_be_bytes(*kind) {
            info::EXPORT => {
                let (size, flags) = data.split_first_chunk()?;
                let flags = TransmissionFlags(u16::from_be_bytes(flags.try_into().ok()?));
                self.export = Some((u64::from_be_bytes(*size), flags));
            }
            info::BLOCK_SIZE => {
                let sizes = <[U32; 3]>::read_from_bytes(data).ok()?;
                let [minimum, preferred, maximum] = sizes.map(U32::get);
                self.block_sizes = BlockSizes::new(minimum, preferred, maximum).ok()?;
            }
            _ => {}
        }
        Some(())
    }

    fn set_meta_context(&mut self, out: &mut Vec<u8>) {
        let Wishes { export, contexts, .. } = self.wishes.clone();
        let mut data = (export.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(export.as_bytes());
        data.extend_from_slice(&(contexts.len() as u32).to_be_bytes());
        for context in contexts.iter() {
            data.extend_from_slice(&(context.name().len() as u32).to_be_bytes());
            data.extend_from_slice(context.name().as_bytes());
        }
        self.ask(opt::SET_META_CONTEXT, &[&data], out);
    }

    fn go(&mut self, out: &mut Vec<u8>) {
        let name = self.wishes.export.clone();
        let parts: [&[u8]; 4] = [
            &(name.len() as u32).to_be_bytes(),
            name.as_bytes(),
            &1_u16.to_be_bytes(),
            &info::BLOCK_SIZE.to_be_bytes(),
        ];
        self.ask(opt::GO, &parts, out);
    }

    fn ask(&mut self, option: u32, parts: &[&[u8]], out: &mut Vec<u8>) {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let header = OptionHeader {
            magic: U64::new(OPTION_MAGIC),
            option: U32::new(option),
            len: U32::new(len as u32),
        };
        out.extend_from_slice(header.as_bytes());
        parts.iter().for_each(|part| out.extend_from_slice(part));
        self.expect = Expect::Head { option };
    }
}
