//! Our client at servers that do not keep the protocol.

use weir_nbd::client::{Client, ConnectError, Connected, Connecting, Reply, ReplyError, Wishes};
use weir_nbd::wire::{chunk, opt, rep};
use weir_nbd::{
    BlockSizes, Command, Context, Contexts, Cookie, Extent, Mark, Op, ReplyFormat,
    TransmissionFlags,
};

const BOTH: Contexts = Contexts::NONE.with(Context::Allocation).with(Context::AllocationDepth);

fn client(structured_replies: bool) -> Client {
    client_of(structured_replies, false, [Some(1), None])
}

fn client_of(
    structured_replies: bool,
    extended_headers: bool,
    contexts: [Option<u32>; 2],
) -> Client {
    let mut client = Client::new(Connected {
        size: 1 << 20,
        flags: TransmissionFlags::HAS_FLAGS,
        block_sizes: BlockSizes::DEFAULT,
        extended_headers,
        structured_replies,
        contexts,
    });
    let op = Op::Read { whole: false };
    let read = Command { cookie: Cookie(1), op, fua: false, offset: 100, len: 10 };
    client.request(&read, &mut Vec::new());
    let flush = Command { cookie: Cookie(2), op: Op::Flush, fua: false, offset: 0, len: 0 };
    client.request(&flush, &mut Vec::new());
    // Those that were granted, where the form has no way to ask for others.
    let op = Op::BlockStatus { one: false, contexts: BOTH };
    let status = Command { cookie: Cookie(3), op, fua: false, offset: 0, len: 512 };
    client.request(&status, &mut Vec::new());
    client
}

/// A chunk that answers the block status request.
fn status(words: &[u32]) -> Vec<u8> {
    let mut bytes = 0x668e_33ef_u32.to_be_bytes().to_vec();
    bytes.extend([0, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 3]);
    bytes.extend((words.len() as u32 * 4).to_be_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    bytes
}

/// The error that `bytes` end in.
fn error(mut client: Client, bytes: &[u8]) -> ReplyError {
    let mut rest = bytes;
    loop {
        match client.parse(rest) {
            Err(error) => return error,
            Ok(parsed) => {
                assert!(!matches!(parsed.reply, Reply::NeedMore { .. }), "no error");
                rest = &rest[parsed.consumed..];
            }
        }
    }
}

#[test]
fn replies_without_a_request_are_errors() {
    let of = |cookie, offset| Mark { cookie: Cookie(cookie), offset };
    let read = of(1, 100);
    let (simple, structured) = (ReplyFormat::Simple, ReplyFormat::Structured);
    let data = structured.data_chunk(read, 100, 6, false);
    let overlap = [&data[..], &[0; 6], &data[..], &[0; 6]].concat();
    let short = [&data[..], &[0; 6], &structured.none_chunk(read)].concat();
    let ended = structured.none_chunk(of(3, 0));
    let bad = |kind, len| ReplyError::BadChunk { kind, len };
    for (bytes, structured, expected) in [
        (&b"HTTP"[..], true, ReplyError::Magic { magic: 0x4854_5450 }),
        (&structured.none_chunk(read), false, ReplyError::Magic { magic: 0x668e_33ef }),
        (&simple.done(of(9, 0)), true, ReplyError::UnknownCookie { cookie: Cookie(9) }),
        (&simple.done(read), true, ReplyError::NotStructured),
        (&structured.data_chunk(read, 99, 5, true), true, bad(chunk::OFFSET_DATA, 13)),
        (&structured.data_chunk(read, 100, 11, true), true, bad(chunk::OFFSET_DATA, 19)),
        (&structured.hole_chunk(read, 111, 1, true), true, bad(chunk::OFFSET_HOLE, 12)),
        (&structured.data_chunk(of(2, 0), 0, 1, true), true, bad(chunk::OFFSET_DATA, 9)),
        (&status(&[1]), true, bad(chunk::BLOCK_STATUS, 4)),
        (&status(&[1, 512, 0, 512]), true, bad(chunk::BLOCK_STATUS, 16)),
        (&status(&[2, 512, 0]), true, bad(chunk::BLOCK_STATUS, 12)),
        (&status(&[1, 512, 0, 0, 3]), true, bad(chunk::BLOCK_STATUS, 20)),
        (&overlap, true, bad(chunk::OFFSET_DATA, 14)),
        (&short, true, ReplyError::Short { got: 6, len: 10 }),
        (&ended, true, ReplyError::NoStatus { context: Context::Allocation }),
    ] {
        assert_eq!(error(client(structured), bytes), expected);
    }
}

#[test]
fn extents_are_read() {
    let mut client = client(true);
    let bytes = status(&[1, 4096, 0, 512, 3]);
    let extents = vec![
        Extent { len: 4096, hole: false, zero: false },
        Extent { len: 512, hole: true, zero: true },
    ];
    let parsed = client.parse(&bytes).unwrap();
    let context = Context::Allocation;
    assert_eq!(parsed.reply, Reply::Status { cookie: Cookie(3), context, extents });
    assert_eq!(client.parse(&[]).unwrap().reply, Reply::Done { cookie: Cookie(3) });
}

#[test]
fn extended_replies_are_read_and_wrong_ones_refused() {
    let client = || client_of(true, true, [Some(7), Some(9)]);
    let chunk = |kind: u16, flags: u16, cookie: u64, offset: u64, body: &[u8]| {
        let mut bytes = 0x6e8a_278c_u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        for word in [cookie, offset, body.len() as u64] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(body);
        bytes
    };
    let status = |id: u32, count: u32, extents: &[u64]| {
        let mut body = [id.to_be_bytes(), count.to_be_bytes()].concat();
        body.extend(extents.iter().flat_map(|word| word.to_be_bytes()));
        body
    };
    let ext = chunk::BLOCK_STATUS_EXT;
    let first = chunk(ext, 0, 3, 0, &status(7, 2, &[1 << 40, 0, 512, 3]));
    let second = chunk(ext, 1, 3, 0, &status(9, 1, &[512, 1]));
    let mut reading = client();
    let parsed = reading.parse(&[&first[..], &second].concat()).unwrap();
    let extents = vec![
        Extent { len: 1 << 40, hole: false, zero: false },
        Extent { len: 512, hole: true, zero: true },
    ];
    let context = Context::Allocation;
    assert_eq!(parsed.reply, Reply::Status { cookie: Cookie(3), context, extents });
    let extents = vec![Extent { len: 512, hole: false, zero: false }];
    let context = Context::AllocationDepth;
    let reply = reading.parse(&second).unwrap().reply;
    assert_eq!(reply, Reply::Status { cookie: Cookie(3), context, extents });
    assert_eq!(reading.parse(&[]).unwrap().reply, Reply::Done { cookie: Cookie(3) });

    let bad = |kind, len| ReplyError::BadChunk { kind, len };
    let read = Mark { cookie: Cookie(1), offset: 100 };
    let long = {
        let mut bytes = chunk(chunk::NONE, 1, 1, 100, &[]);
        bytes[24] = 1;
        bytes
    };
    for (bytes, expected) in [
        (ReplyFormat::Simple.done(read).to_vec(), ReplyError::Magic { magic: 0x6744_6698 }),
        (
            ReplyFormat::Structured.none_chunk(read).to_vec(),
            ReplyError::Magic { magic: 0x668e_33ef },
        ),
        (chunk(chunk::NONE, 1, 1, 101, &[]), bad(chunk::NONE, 0)),
        (long, bad(chunk::NONE, u32::MAX)),
        (chunk(chunk::BLOCK_STATUS, 1, 3, 0, &[0; 12]), bad(chunk::BLOCK_STATUS, 12)),
        (chunk(ext, 1, 3, 0, &status(7, 2, &[512, 0])), bad(ext, 24)),
        (chunk(ext, 1, 3, 0, &status(8, 1, &[512, 0])), bad(ext, 24)),
        (chunk(ext, 1, 3, 0, &status(7, 1, &[512, 1 << 32])), bad(ext, 24)),
        (chunk(ext, 1, 3, 0, &status(7, 1, &[0, 0])), bad(ext, 24)),
        (second, ReplyError::NoStatus { context: Context::Allocation }),
        ([&first[..], &first].concat(), bad(ext, 40)),
    ] {
        assert_eq!(error(client(), &bytes), expected);
    }
}

#[test]
fn a_reply_with_too_much_payload_is_an_error() {
    let mut connecting = Connecting::new(Wishes::default());
    let mut bytes = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
    bytes.extend(0x0003_e889_0455_65a9_u64.to_be_bytes());
    for word in [opt::GO, rep::INFO, 1 << 20] {
        bytes.extend(word.to_be_bytes());
    }
    let error = connecting.handle_input(&bytes, &mut Vec::new()).unwrap_err();
    let expected = ConnectError::BadReply { option: opt::GO, kind: rep::INFO, len: 1 << 20 };
    assert_eq!(error, expected);
}

#[test]
fn a_refusal_of_the_server_is_in_the_error() {
    let mut connecting = Connecting::new(Wishes::default());
    let mut out = Vec::new();
    connecting.handle_input(b"NBDMAGICIHAVEOPT\0\x03", &mut out).unwrap();
    assert_eq!(out[..4], [0, 0, 0, 3]);
    let mut refusal = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
    for word in [opt::GO, rep::ERR_UNKNOWN, 4] {
        refusal.extend(word.to_be_bytes());
    }
    refusal.extend(b"gone");
    let error = connecting.handle_input(&refusal, &mut out).unwrap_err();
    let expected = ConnectError::Refused { kind: rep::ERR_UNKNOWN, message: "gone".into() };
    assert_eq!(error, expected);
    assert_eq!(error.to_string(), "server refused the export with 0x80000006: gone");
}

#[test]
fn a_server_of_another_protocol_is_recognised() {
    for greeting in [b"SSH-2.0-OpenSSH_9.2", &b"NBDMAGICIHAVEOPT\0\0"[..]] {
        let error = Connecting::new(Wishes::default()).handle_input(greeting, &mut Vec::new());
        assert_eq!(error, Err(ConnectError::NotNbd));
    }
}
