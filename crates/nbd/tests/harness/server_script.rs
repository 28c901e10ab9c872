//! Scripts of a server, nearly right.

use weir_nbd::wire::{
    EXTENDED_REPLY_MAGIC, OPTION_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk,
    opt, rep,
};

use super::Data;

/// A greeting and replies to the options of our client, in the order it asks.
pub(super) fn handshake(data: &[u8]) -> Vec<u8> {
    let mut data = Data(data);
    let mut out = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
    let mut option = opt::STRUCTURED_REPLY;
    while !data.0.is_empty() {
        let verb = data.byte();
        if verb & 0x80 != 0 {
            option = [opt::STRUCTURED_REPLY, opt::SET_META_CONTEXT, opt::GO, opt::EXTENDED_HEADERS]
                [usize::from(verb & 3)];
        }
        let (kind, body) = match verb & 0x0f {
            0 => (u32::from(data.byte()), data.take(8)),
            1 => (rep::ERR_UNSUP, &b"no"[..]),
            2 if verb & 0x10 != 0 => (rep::META_CONTEXT, &b"\0\0\0\x02qemu:allocation-depth"[..]),
            2 => (rep::META_CONTEXT, &b"\0\0\0\x01base:allocation"[..]),
            3..=5 => (rep::INFO, &b"\0\0\0\0\0\0\0\x10\0\0\0\x01"[..]),
            6 => (rep::INFO, &b"\0\x03\0\0\0\x01\0\0\x10\0\0\x10\0\0"[..]),
            7 => (rep::INFO, data.take(12)),
            _ => (rep::ACK, &b""[..]),
        };
        out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        out.extend(option.to_be_bytes());
        out.extend(kind.to_be_bytes());
        out.extend((body.len() as u32).to_be_bytes());
        out.extend(body);
    }
    out
}

/// Replies to requests of 16 bytes with cookies 0 to 4, `extended` or not.
pub(super) fn replies(data: &[u8], extended: bool) -> Vec<u8> {
    let mut data = Data(data);
    let mut out = Vec::new();
    while !data.0.is_empty() {
        let verb = data.byte();
        let cookie = u64::from(verb >> 5).to_be_bytes();
        let last = u16::from(verb >> 4 & 1).to_be_bytes();
        let (offset, len) = (data.byte() % 18, data.byte() % 18);
        let offset = u64::from(offset).to_be_bytes();
        let mut piece = |kind: u16, parts: &[&[u8]]| {
            let len = parts.iter().map(|part| part.len() as u32).sum::<u32>();
            let magic = if extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC };
            out.extend(magic.to_be_bytes());
            out.extend(last);
            out.extend(kind.to_be_bytes());
            out.extend(cookie);
            if extended {
                out.extend([0; 12]);
            }
            out.extend(len.to_be_bytes());
            parts.iter().for_each(|part| out.extend_from_slice(part));
        };
        match verb & 0x0f {
            0 => out.extend(data.take(16)),
            1 => piece(chunk::NONE, &[]),
            2..=4 => piece(chunk::OFFSET_DATA, &[&offset, &[0xda; 18][..usize::from(len)]]),
            5 | 6 => piece(chunk::OFFSET_HOLE, &[&offset, &[0, 0, 0, len]]),
            7 if extended => {
                let id = [0, 0, 0, 1 + (len & 1)];
                let extent = [&[0; 7][..], &[len], &[0; 7], &[3]].concat();
                piece(chunk::BLOCK_STATUS_EXT, &[&id, &[0, 0, 0, 1], &extent]);
            }
            7 => piece(
                chunk::BLOCK_STATUS,
                &[&[0, 0, 0, 1 + (len & 1)], &[0, 0, 0, len, 0, 0, 0, 3]],
            ),
            8 => piece(chunk::ERROR, &[&[0, 0, 0, 5], &[0, len], b"as told"]),
            9 => piece(chunk::ERROR_OFFSET, &[&[0, 0, 0, 5], &[0, 2], b"no", &offset]),
            10 => piece(u16::from(data.byte()), &[data.take(4)]),
            error => {
                out.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
                out.extend([0, 0, 0, if error == 11 { 5 } else { 0 }]);
                out.extend(cookie);
                out.extend(&[0xda; 16][..usize::from(len) & 16]);
            }
        }
    }
    out
}
