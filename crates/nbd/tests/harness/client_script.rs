//! Scripts of a client, nearly right: raw bytes seldom get past the first magic.

use weir_nbd::wire::{EXTENDED_REQUEST_MAGIC, OPTION_MAGIC, REQUEST_MAGIC, cmd, cmd_flag, opt};

use super::Data;

/// Reads `data` as a list of things a client might say and gives them as they go over the wire,
/// flags first.
pub(super) fn stream(data: &[u8]) -> Vec<u8> {
    let mut data = Data(data);
    let mut out = vec![0, 0, 0, 3];
    let (mut chosen, mut extended) = (false, false);
    while !data.0.is_empty() {
        let verb = data.byte();
        match verb % 16 {
            0 => {
                let len = usize::from(data.byte());
                out.extend(data.take(len));
            }
            _ if chosen => request(&mut data, extended, &mut out),
            verb => chosen = options(verb, &mut data, &mut extended, &mut out),
        }
    }
    out
}

/// One option, or two that go together; true when an export is chosen by it.
fn options(verb: u8, data: &mut Data<'_>, extended: &mut bool, out: &mut Vec<u8>) -> bool {
    let choice = data.byte();
    match verb {
        1 | 2 => {
            let len = usize::from(data.byte() % 32);
            let data = data.take(len);
            *extended |= u32::from(choice % 16) == opt::EXTENDED_HEADERS && data.is_empty();
            option(u32::from(choice % 16), data, out);
        }
        3..=7 => {
            let number = [opt::SET_META_CONTEXT, opt::LIST_META_CONTEXT][usize::from(verb == 3)];
            let query = [&b"base:allocation"[..], b"base:allocation", b"base:", b"x:y"];
            let query = query[usize::from(choice >> 6)];
            let depth = b"qemu:allocation-depth";
            let count = 1 + (choice >> 5 & 1);
            let mut queries =
                [&[0, 0, 0, count, 0, 0, 0][..], &[query.len() as u8], query].concat();
            if count > 1 {
                queries.extend([&[0, 0, 0, depth.len() as u8][..], depth].concat());
            }
            let headers = [opt::STRUCTURED_REPLY, opt::EXTENDED_HEADERS][usize::from(verb > 4)];
            *extended |= headers == opt::EXTENDED_HEADERS;
            option(headers, &[], out);
            option(number, &[&name(choice)[..], &queries].concat(), out);
        }
        8 => {
            option(opt::EXPORT_NAME, &name(choice)[4..], out);
            return choice % 8 < 7;
        }
        10 if choice >> 6 == 0 => option(opt::STARTTLS, &[], out),
        verb => {
            let kinds = [0, 3, 0, 2, 0, 1];
            let count = choice >> 6;
            let kinds = &kinds[..usize::from(count) * 2];
            let number = if verb == 9 { opt::INFO } else { opt::GO };
            option(number, &[&name(choice)[..], &[0, count], kinds].concat(), out);
            return number == opt::GO && choice % 8 < 7;
        }
    }
    false
}

/// A length and one of the harness's names, or one it does not have.
fn name(choice: u8) -> Vec<u8> {
    let name = ["", "", "rw", "rw", "rw", "ro", "plain", "none"][usize::from(choice % 8)];
    [&[0, 0, 0, name.len() as u8], name.as_bytes()].concat()
}

fn option(number: u32, data: &[u8], out: &mut Vec<u8>) {
    out.extend(OPTION_MAGIC.to_be_bytes());
    out.extend(number.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

/// A request whose range is right, or near the edges that matter; a write with its payload.
fn request(data: &mut Data<'_>, extended: bool, out: &mut Vec<u8>) {
    let (what, flags, offset, len) = (data.byte(), data.byte(), data.byte(), data.byte());
    let kind = match u16::from(what % 10) {
        // The end should not come too soon.
        cmd::DISC if what < 0xc0 => cmd::READ,
        kind => kind,
    };
    let flags = match what >> 6 {
        0 => flags % 64,
        1 => flags & 1,
        // What is the command's own.
        2 => match kind {
            cmd::READ => flags & 0b100,
            cmd::WRITE_ZEROES => flags & 0b10010,
            cmd::BLOCK_STATUS => flags & 0b1000,
            _ => 0,
        },
        _ => 0,
    };
    let near = |byte: u8| match byte >> 5 {
        0 => u64::from(byte),
        1 => (1 << 20) + 16 - u64::from(byte & 0x1f),
        2 => u64::MAX >> (byte & 0x1f),
        _ => u64::from(byte & 0x0f) * 512,
    };
    let (offset, len) = match kind {
        cmd::FLUSH if what & 0x80 != 0 => (0, 0),
        _ => (near(offset), near(len)),
    };
    let mut head = |magic: u32, flags: u16| {
        out.extend(magic.to_be_bytes());
        out.extend(flags.to_be_bytes());
        out.extend(kind.to_be_bytes());
        out.extend([0, 0, 0, 0, 0, 0, what, offset as u8]);
        out.extend(offset.to_be_bytes());
    };
    if !extended {
        head(REQUEST_MAGIC, flags.into());
        out.extend((len as u32).to_be_bytes());
        if kind == cmd::WRITE && len < 1 << 16 {
            out.resize(out.len() + len as usize, 0xda);
        }
        return;
    }
    // A write says that it has a payload, but for some; of other requests some do.
    let is_odd = what >> 5 == 7;
    let filters = kind == cmd::BLOCK_STATUS && what & 1 != 0;
    let payload = if (kind == cmd::WRITE) != is_odd || filters { cmd_flag::PAYLOAD_LEN } else { 0 };
    head(EXTENDED_REQUEST_MAGIC, u16::from(flags) | payload);
    if filters {
        let ids = usize::from(offset as u8 % 4);
        let list = [[0, 0, 0, 1 + (flags & 3)], [0, 0, 0, 2], [0, 0, 0, 1]];
        out.extend((8 + 4 * ids as u64).to_be_bytes());
        out.extend(len.to_be_bytes());
        out.extend(&list.concat()[..4 * ids]);
        return;
    }
    out.extend(len.to_be_bytes());
    let has_payload =
        kind == cmd::WRITE || (payload | u16::from(flags)) & cmd_flag::PAYLOAD_LEN != 0;
    if has_payload && len < 1 << 16 {
        out.resize(out.len() + len as usize, 0xda);
    }
}
