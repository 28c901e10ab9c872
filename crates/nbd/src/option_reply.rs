//! Option replies of the handshake.

use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::{U16, U32, U64};

use crate::context::Context;
use crate::export::{Export, TransmissionFlags, clip};
use crate::wire::{
    EXPORT_NAME_ZEROES, ExportNameReply, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, Greeting, INIT_MAGIC,
    OPTION_MAGIC, OPTION_REPLY_MAGIC, OptionReply, info, rep,
};

/// The server's first bytes, the same for every connection.
pub(crate) fn greeting() -> [u8; size_of::<Greeting>()] {
    zerocopy::transmute!(Greeting {
        init_magic: U64::new(INIT_MAGIC),
        option_magic: U64::new(OPTION_MAGIC),
        flags: U16::new(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES),
    })
}

/// Replies to one option, appended to a buffer.
pub(crate) struct OptionReplies<'a> {
    pub(crate) option: u32,
    pub(crate) out: &'a mut Vec<u8>,
}

impl OptionReplies<'_> {
    pub(crate) fn ack(&mut self) {
        self.reply(rep::ACK, &[]);
    }

    /// `kind` is one of the errors of [`rep`], `message` for a person.
    pub(crate) fn error(&mut self, (kind, message): (u32, &str)) {
        self.reply(kind, &[message.as_bytes()]);
    }

    pub(crate) fn server(&mut self, export: &Export) {
        let name = clip(&export.name).as_bytes();
        let description = clip(&export.description).as_bytes();
        self.reply(rep::SERVER, &[&(name.len() as u32).to_be_bytes(), name, description]);
    }

    pub(crate) fn info_export(&mut self, size: u64, flags: TransmissionFlags) {
        self.info(info::EXPORT, &[&size.to_be_bytes(), &flags.0.to_be_bytes()]);
    }

    pub(crate) fn info_name(&mut self, export: &Export) {
        self.info(info::NAME, &[clip(&export.name).as_bytes()]);
    }

    pub(crate) fn info_description(&mut self, export: &Export) {
        self.info(info::DESCRIPTION, &[clip(&export.description).as_bytes()]);
    }

    pub(crate) fn info_block_size(&mut self, export: &Export) {
        let sizes = export.block_sizes;
        let sizes = [sizes.minimum(), sizes.preferred(), sizes.maximum()].map(U32::new);
        self.info(info::BLOCK_SIZE, &[sizes.as_bytes()]);
    }

    pub(crate) fn meta_context(&mut self, id: u32, context: Context) {
        self.reply(rep::META_CONTEXT, &[&id.to_be_bytes(), context.name().as_bytes()]);
    }

    /// The answer to `NBD_OPT_EXPORT_NAME`, which has a form of its own.
    pub(crate) fn export_name(&mut self, size: u64, flags: TransmissionFlags, zeroes: bool) {
        let reply = ExportNameReply { size: U64::new(size), flags: U16::new(flags.0) };
        self.out.extend_from_slice(reply.as_bytes());
        if zeroes {
            self.out.extend_from_slice(&[0; EXPORT_NAME_ZEROES]);
        }
    }

    fn info(&mut self, kind: u16, parts: &[&[u8]]) {
        let len = 2 + parts.iter().map(|part| part.len()).sum::<usize>();
        self.head(rep::INFO, len);
        self.out.extend_from_slice(&kind.to_be_bytes());
        parts.iter().for_each(|part| self.out.extend_from_slice(part));
    }

    fn reply(&mut self, kind: u32, parts: &[&[u8]]) {
        self.head(kind, parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| self.out.extend_from_slice(part));
    }

    fn head(&mut self, kind: u32, len: usize) {
        let head = OptionReply {
            magic: U64::new(OPTION_REPLY_MAGIC),
            option: U32::new(self.option),
            kind: U32::new(kind),
            len: U32::new(len as u32),
        };
        self.out.extend_from_slice(head.as_bytes());
    }
}
