//! The handshake, server side: fixed newstyle negotiation.

use std::mem;

use zerocopy::FromBytes;

use crate::context::{Context, Contexts};
use crate::export::{Denial, Export, ExportId, Exports, Features, TransmissionFlags};
use crate::option_data::{ContextRequest, Flaw, InfoRequest, export_name};
use crate::option_reply::OptionReplies;
use crate::partial::Partial;
use crate::transmission::Negotiated;
use crate::wire::{
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, OPTION_HEADER_LEN, OPTION_MAGIC, OptionHeader, STRING_MAX,
    opt, rep,
};

/// Longest option data that is looked at, in bytes; longer data is skipped and refused. Sixteen
/// names of full length; real options are below 200 bytes.
pub const OPTION_DATA_MAX: usize = 64 * 1024;

/// Most options before transmission; one more ends the connection. A client that asks twice about
/// each of a thousand exports stays below.
pub const OPTIONS_MAX: u32 = 4096;

/// Replies waiting to be sent, in bytes, above which no further option is answered. A client that
/// asks without reading thereby stops itself.
pub const REPLIES_HIGH_WATER: usize = 64 * 1024;

/// What came of a piece of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// What to do next; in every case send what is in `out` first.
    pub state: HandshakeState,
}

/// Where the handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeState {
    /// All input is consumed: receive more.
    NeedInput,
    /// [`REPLIES_HIGH_WATER`] is reached: send, empty `out`, and call again with the rest.
    NeedOutput,
    /// Send, then shake hands for TLS. What is left of the input belongs to that; what it decrypts is the next input, after
    /// [`crate::Session::tls_started`].
    StartTls,
    /// Done. What is left of the input belongs to the transmission phase.
    Transmission(Negotiated),
    /// Send, then close.
    Closed(CloseReason),
}

/// Encryption of a connection, as its listening place has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// None: STARTTLS is refused by policy. The protocol's NOTLS.
    #[default]
    Off,
    /// As the client likes. The protocol's SELECTIVETLS.
    Allowed,
    /// Nothing but STARTTLS and ABORT is answered before it. The protocol's FORCEDTLS.
    Required,
}

/// Why a handshake ended without transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The client said so, politely.
    #[error("client aborted the negotiation")]
    Aborted,
    /// A client with extended headers used the option that has no place for them.
    #[error("EXPORT_NAME from a client that has negotiated extended headers: it must use GO")]
    NeedsGo,
    /// Flags we must not accept.
    #[error("client flags {flags:#x}: only 0x3 is known")]
    ClientFlags {
        /// What it sent.
        flags: u32,
    },
    /// Not an option: no NBD client, or one that lost step.
    #[error("option magic {magic:#018x}, expected 0x49484156454f5054")]
    Magic {
        /// What was there.
        magic: u64,
    },
    /// An old client, which may only name an export, did something else.
    #[error("option {option} from a client without fixed newstyle")]
    NotFixedNewstyle {
        /// What it asked.
        option: u32,
    },
    /// EXPORT_NAME cannot be answered with an error.
    #[error("no such export")]
    UnknownExport,
    /// As above.
    #[error("{0}")]
    NotAdmitted(&'static str),
    /// As above.
    #[error("malformed export name of {len} bytes")]
    BadExportName {
        /// Length of the name.
        len: u32,
    },
    /// As above.
    #[error("the client named an export without TLS, which is required here")]
    TlsRequired,
    /// As above.
    #[error("server is shutting down")]
    Shutdown,
    /// More than [`OPTIONS_MAX`].
    #[error("more than {max} options")]
    TooManyOptions {
        /// The limit.
        max: u32,
    },
}

/// The negotiation of one connection, from the client's flags to the chosen export.
#[derive(Debug)]
pub(crate) struct Handshake {
    expect: Expect,
    partial: Partial,
    fixed_newstyle: bool,
    zeroes: bool,
    options_seen: u32,
    structured_replies: bool,
    extended_headers: bool,
    /// The export for which contexts were selected last, and which.
    contexts: Option<(ExportId, Contexts)>,
    shutting_down: bool,
    tls: Tls,
}

/// Encryption of this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tls {
    /// The bytes are plain.
    Plain(TlsMode),
    /// STARTTLS was granted; no plain byte is looked at any more.
    Starting,
    /// The bytes come out of TLS.
    On,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    ClientFlags,
    OptionHeader,
    /// Data of an option that has to be read, at most [`OPTION_DATA_MAX`].
    OptionData {
        option: u32,
        len: u32,
    },
    /// Data of an option that is refused whatever it says.
    Skip {
        option: u32,
        len: u32,
        refusal: Refusal,
    },
}

/// An error reply: its type, and words for a person.
type Refusal = (u32, &'static str);

/// What a complete message leads to.
type Step = Result<Expect, End>;

/// How a handshake ends.
enum End {
    StartTls,
    Transmission(Negotiated),
    Closed(CloseReason),
}

impl Handshake {
    pub(crate) fn new(tls: TlsMode) -> Handshake {
        Handshake {
            expect: Expect::ClientFlags,
            partial: Partial::default(),
            fixed_newstyle: false,
            zeroes: true,
            options_seen: 0,
            structured_replies: false,
            extended_headers: false,
            contexts: None,
            shutting_down: false,
            tls: Tls::Plain(tls),
        }
    }

    /// Goes on inside TLS: of what was negotiated before, only the client's flags still hold.
    ///
    /// # Panics
    /// When STARTTLS was not granted just now.
    pub(crate) fn tls_started(&mut self) {
        assert_eq!(self.tls, Tls::Starting, "TLS starts when STARTTLS is granted");
        self.tls = Tls::On;
        self.structured_replies = false;
        self.extended_headers = false;
        self.contexts = None;
    }

    pub(crate) fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.partial.allocated_bytes()
    }

    pub(crate) fn handle_input(
        &mut self,
        input: &[u8],
        exports: &(impl Exports + ?Sized),
        out: &mut Vec<u8>,
    ) -> Progress {
        if self.tls == Tls::Starting {
            return Progress { consumed: 0, state: HandshakeState::StartTls };
        }
        let mut rest = input;
        let state = loop {
            let wanted = match self.expect {
                Expect::ClientFlags => 4,
                // Only here: an option that was begun is also answered.
                Expect::OptionHeader if out.len() >= REPLIES_HIGH_WATER => {
                    break HandshakeState::NeedOutput;
                }
                Expect::OptionHeader => OPTION_HEADER_LEN,
                Expect::OptionData { len, .. } => len as usize,
                Expect::Skip { option, len, refusal } => {
                    let skipped = rest.len().min(len as usize);
                    rest = &rest[skipped..];
                    let len = len - skipped as u32;
                    if len > 0 {
                        self.expect = Expect::Skip { option, len, refusal };
                        break HandshakeState::NeedInput;
                    }
                    OptionReplies { option, out }.error(refusal);
                    self.expect = Expect::OptionHeader;
                    continue;
                }
            };

            // Out of `self` while the message may borrow from it.
            let mut partial = mem::take(&mut self.partial);
            let step =
                partial.gather(&mut rest, wanted, |message| self.message(message, exports, out));
            self.partial = partial;
            let Some(step) = step else { break HandshakeState::NeedInput };
            match step {
                Ok(expect) => self.expect = expect,
                Err(End::StartTls) => {
                    self.expect = Expect::OptionHeader;
                    self.tls = Tls::Starting;
                    break HandshakeState::StartTls;
                }
                Err(End::Transmission(negotiated)) => {
                    break HandshakeState::Transmission(negotiated);
                }
                Err(End::Closed(reason)) => break HandshakeState::Closed(reason),
            }
        };
        Progress { consumed: input.len() - rest.len(), state }
    }

    fn message(
        &mut self,
        message: &[u8],
        exports: &(impl Exports + ?Sized),
        out: &mut Vec<u8>,
    ) -> Step {
        match self.expect {
            Expect::ClientFlags => self.client_flags(message),
            Expect::OptionHeader => {
                let Ok(header) = OptionHeader::read_from_bytes(message) else {
                    unreachable!("an option header of {} bytes", message.len());
                };
                self.option_header(header, exports, out)
            }
            Expect::OptionData { option, .. } => {
                let mut replies = OptionReplies { option, out };
                match option {
                    opt::EXPORT_NAME => self.export_name(message, exports, &mut replies),
                    opt::INFO | opt::GO => self.info(message, exports, &mut replies),
                    _ => self.meta_context(message, exports, &mut replies),
                }
            }
            Expect::Skip { .. } => unreachable!("skipped data is no message"),
        }
    }

    fn client_flags(&mut self, message: &[u8]) -> Step {
        let flags = message.iter().fold(0, |flags, byte| flags << 8 | u32::from(*byte));
        if flags & !u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) != 0 {
            return close(CloseReason::ClientFlags { flags });
        }
        self.fixed_newstyle = flags & u32::from(FLAG_FIXED_NEWSTYLE) != 0;
        self.zeroes = flags & u32::from(FLAG_NO_ZEROES) == 0;
        Ok(Expect::OptionHeader)
    }

    /// Answers what needs no data: unknown or misused options, whatever the length they announce.
    fn option_header(
        &mut self,
        header: OptionHeader,
        exports: &(impl Exports + ?Sized),
        out: &mut Vec<u8>,
    ) -> Step {
        let (option, len) = (header.option.get(), header.len.get());
        if header.magic.get() != OPTION_MAGIC {
            return close(CloseReason::Magic { magic: header.magic.get() });
        }
        if !self.fixed_newstyle && option != opt::EXPORT_NAME {
            return close(CloseReason::NotFixedNewstyle { option });
        }
        self.options_seen += 1;
        if self.options_seen > OPTIONS_MAX {
            return close(CloseReason::TooManyOptions { max: OPTIONS_MAX });
        }
        let mut replies = OptionReplies { option, out };

        let refusal = match option {
            opt::ABORT => {
                replies.ack();
                return close(CloseReason::Aborted);
            }
            opt::EXPORT_NAME if self.shutting_down => return close(CloseReason::Shutdown),
            opt::EXPORT_NAME if self.needs_tls() => return close(CloseReason::TlsRequired),
            opt::EXPORT_NAME if self.extended_headers => return close(CloseReason::NeedsGo),
            opt::EXPORT_NAME if len as usize > STRING_MAX => {
                return close(CloseReason::BadExportName { len });
            }
            opt::EXPORT_NAME => return Ok(Expect::OptionData { option, len }),
            _ if self.shutting_down => (rep::ERR_SHUTDOWN, "the server is shutting down"),
            _ if option != opt::STARTTLS && self.needs_tls() => {
                (rep::ERR_TLS_REQD, "TLS is required here: start it first (NBD_OPT_STARTTLS)")
            }
            opt::LIST | opt::STRUCTURED_REPLY | opt::EXTENDED_HEADERS | opt::STARTTLS
                if len > 0 =>
            {
                (rep::ERR_INVALID, "this option takes no data")
            }
            opt::LIST => {
                exports.list(&mut |export| replies.server(export));
                replies.ack();
                return Ok(Expect::OptionHeader);
            }
            opt::STRUCTURED_REPLY if self.extended_headers => {
                (rep::ERR_EXT_HEADER_REQD, "extended headers are negotiated already")
            }
            opt::EXTENDED_HEADERS if self.extended_headers => {
                (rep::ERR_INVALID, "extended headers are negotiated already")
            }
            opt::EXTENDED_HEADERS => {
                // Every reply is made of chunks then.
                (self.extended_headers, self.structured_replies) = (true, true);
                replies.ack();
                return Ok(Expect::OptionHeader);
            }
            opt::STRUCTURED_REPLY if self.structured_replies => {
                (rep::ERR_INVALID, "structured replies are negotiated already")
            }
            opt::STRUCTURED_REPLY => {
                self.structured_replies = true;
                replies.ack();
                return Ok(Expect::OptionHeader);
            }
            opt::STARTTLS => match self.tls {
                Tls::Plain(TlsMode::Off) => (rep::ERR_POLICY, "TLS is not enabled on this server"),
                Tls::Plain(TlsMode::Allowed | TlsMode::Required) => {
                    replies.ack();
                    return Err(End::StartTls);
                }
                Tls::Starting | Tls::On => (rep::ERR_INVALID, "TLS has started already"),
            },
            opt::INFO | opt::GO | opt::LIST_META_CONTEXT | opt::SET_META_CONTEXT => {
                if option == opt::SET_META_CONTEXT {
                    // Failing, too, drops what was selected before.
                    self.contexts = None;
                }
                if len as usize <= OPTION_DATA_MAX {
                    return Ok(Expect::OptionData { option, len });
                }
                (rep::ERR_TOO_BIG, "more than 65536 bytes of option data")
            }
            _ => (rep::ERR_UNSUP, "this server does not know the option"),
        };
        Ok(Expect::Skip { option, len, refusal })
    }

    /// Whether options are refused until TLS has started.
    fn needs_tls(&self) -> bool {
        self.tls == Tls::Plain(TlsMode::Required)
    }

    /// The refusal of an export that this connection may not use.
    fn denied(&self, export: &Export, exports: &(impl Exports + ?Sized)) -> Option<Refusal> {
        match exports.may_use(export).err()? {
            Denial::Certificate(words) if self.tls == Tls::Plain(TlsMode::Allowed) => {
                Some((rep::ERR_TLS_REQD, words))
            }
            Denial::Certificate(words) | Denial::Policy(words) => Some((rep::ERR_POLICY, words)),
        }
    }

    fn export_name(
        &mut self,
        data: &[u8],
        exports: &(impl Exports + ?Sized),
        replies: &mut OptionReplies<'_>,
    ) -> Step {
        let Ok(name) = export_name(data) else {
            return close(CloseReason::BadExportName { len: data.len() as u32 });
        };
        let Some(export) = exports.find(name) else {
            return close(CloseReason::UnknownExport);
        };
        if let Some((_, words)) = self.denied(export, exports) {
            return close(CloseReason::NotAdmitted(words));
        }
        if let Err(words) = exports.admit(export) {
            return close(CloseReason::NotAdmitted(words));
        }
        let negotiated = self.negotiated(export, exports.features(export), false);
        replies.export_name(negotiated.size, negotiated.flags, self.zeroes);
        Err(End::Transmission(negotiated))
    }

    fn info(
        &mut self,
        data: &[u8],
        exports: &(impl Exports + ?Sized),
        replies: &mut OptionReplies<'_>,
    ) -> Step {
        let request = match InfoRequest::parse(data) {
            Ok(request) => request,
            Err(flaw) => return refuse(flaw_refusal(flaw), replies),
        };
        let Some(export) = exports.find(request.name) else {
            return refuse(UNKNOWN_EXPORT, replies);
        };
        if let Some(refusal) = self.denied(export, exports) {
            return refuse(refusal, replies);
        }
        if replies.option == opt::GO
            && let Err(words) = exports.admit(export)
        {
            return refuse((rep::ERR_POLICY, words), replies);
        }
        let negotiated =
            self.negotiated(export, exports.features(export), request.wants_block_size);
        replies.info_export(negotiated.size, negotiated.flags);
        if request.wants_name {
            replies.info_name(export);
        }
        if request.wants_description && !export.description.is_empty() {
            replies.info_description(export);
        }
        if request.wants_block_size {
            replies.info_block_size(export);
        }
        replies.ack();
        if replies.option == opt::GO {
            return Err(End::Transmission(negotiated));
        }
        Ok(Expect::OptionHeader)
    }

    fn meta_context(
        &mut self,
        data: &[u8],
        exports: &(impl Exports + ?Sized),
        replies: &mut OptionReplies<'_>,
    ) -> Step {
        let set = replies.option == opt::SET_META_CONTEXT;
        if set && !self.structured_replies {
            return refuse(
                (
                    rep::ERR_INVALID,
                    "structured replies or extended headers must be negotiated first",
                ),
                replies,
            );
        }
        let request = match ContextRequest::parse(data) {
            Ok(request) => request,
            Err(flaw) => return refuse(flaw_refusal(flaw), replies),
        };
        let Some(export) = exports.find(request.name) else {
            return refuse(UNKNOWN_EXPORT, replies);
        };
        if let Some(refusal) = self.denied(export, exports) {
            return refuse(refusal, replies);
        }
        if set {
            self.contexts = Some((export.id, request.named));
            request.named.iter().for_each(|context| replies.meta_context(context.id(), context));
        } else {
            let is_listed = |context| {
                request.queries == 0
                    || request.named.contains(context)
                    || request.of_wildcards.contains(context)
            };
            // In a listing the id is reserved and to be 0.
            let listed = Context::ALL.into_iter().filter(|&context| is_listed(context));
            listed.for_each(|context| replies.meta_context(0, context));
        }
        replies.ack();
        Ok(Expect::OptionHeader)
    }

    /// What is agreed on for `export`, with a client that may use `features` of it and is told its block sizes or is not.
    fn negotiated(&self, export: &Export, features: Features, is_told_sizes: bool) -> Negotiated {
        let (extended_headers, structured_replies) =
            (self.extended_headers, self.structured_replies);
        let contexts = self.contexts.filter(|(id, _)| *id == export.id);
        let contexts = contexts.map_or(Contexts::NONE, |(_, contexts)| contexts);
        let mut flags = features.transmission_flags(structured_replies);
        if extended_headers && !contexts.is_empty() {
            flags = flags.with(TransmissionFlags::BLOCK_STATUS_PAYLOAD);
        }
        let sizes = export.block_sizes;
        Negotiated {
            export: export.id,
            size: export.size,
            flags,
            block_sizes: if is_told_sizes { sizes } else { sizes.untold() },
            extended_headers,
            structured_replies,
            contexts,
        }
    }
}

const UNKNOWN_EXPORT: Refusal =
    (rep::ERR_UNKNOWN, "no export of this name; a listing shows the names there are");

fn flaw_refusal(flaw: Flaw) -> Refusal {
    match flaw {
        Flaw::Malformed => (rep::ERR_INVALID, "the lengths in the option do not add up"),
        Flaw::LongString => (rep::ERR_INVALID, "a string is longer than 4096 bytes"),
        Flaw::NotUtf8 => (rep::ERR_INVALID, "the export name is not UTF-8"),
        Flaw::ManyQueries => (rep::ERR_TOO_BIG, "more than 1024 queries"),
    }
}

fn close(reason: CloseReason) -> Step {
    Err(End::Closed(reason))
}

fn refuse(refusal: Refusal, replies: &mut OptionReplies<'_>) -> Step {
    replies.error(refusal);
    Ok(Expect::OptionHeader)
}
