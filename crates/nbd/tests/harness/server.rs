//! The server's session under any bytes.

use weir_nbd::client::{Client, Connected, Reply};
use weir_nbd::{
    BlockSizes, CloseReason, Command, Context, DRAIN_MAX, ErrorCode, Export, ExportId, Exports,
    Extent, Features, HandshakeState, Item, Negotiated, OPTION_DATA_MAX, Op, REPLIES_HIGH_WATER,
    Refusal, Session, TlsMode, Transmission, TransmissionFlags, block_status,
};

use super::{Cuts, client_script, split};

/// What came of a stream, however it was cut.
#[derive(Debug, Default, PartialEq)]
struct Transcript {
    replies: Vec<u8>,
    encrypted: bool,
    negotiated: Option<Negotiated>,
    closed: Option<CloseReason>,
    items: Vec<Item>,
}

/// Feeds one stream whole and in pieces; both must come to the same, and keep every promise. Gives
/// what was parsed in transmission.
pub fn server(data: &[u8]) -> Vec<Item> {
    let Some((settings, cuts, rest)) = split(data) else { return Vec::new() };
    let stream = match settings % 4 {
        0 => rest.to_vec(),
        1 => [&[0, 0, 0, 3], rest].concat(),
        _ => client_script::stream(rest),
    };
    let exports = exports();
    let tls = match settings >> 4 & 3 {
        1 => TlsMode::Allowed,
        2 => TlsMode::Required,
        _ => TlsMode::Off,
    };
    let whole = run(&stream, Cuts::NONE, &exports, tls);
    assert_eq!(whole, run(&stream, Cuts::new(cuts), &exports, tls));
    whole.items
}

fn exports() -> Vec<Export> {
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
    let export = |id, name: &str, features, block_sizes| Export {
        id: ExportId(id),
        name: name.into(),
        description: "of the harness".into(),
        size: 1 << 20,
        features,
        block_sizes,
    };
    // Small, so that a read does not cost more than all else in the harness.
    let bytes = BlockSizes::new(1, 512, 5000).unwrap();
    let blocks = BlockSizes::new(512, 512, 4096).unwrap();
    vec![
        export(0, "", all, bytes),
        export(1, "rw", all, blocks),
        export(2, "ro", Features { read_only: true, ..all }, bytes),
        export(3, "plain", Features::default(), bytes),
    ]
}

fn run(stream: &[u8], mut cuts: Cuts<'_>, exports: &Vec<Export>, tls: TlsMode) -> Transcript {
    let mut session = Session::with_tls(tls);
    let mut transcript = Transcript::default();
    let mut listing = 0;
    exports.list(&mut |export| listing += export.name.len() + export.description.len() + 24);

    let mut stream = stream;
    while !stream.is_empty() {
        let mut piece = cuts.piece(&mut stream);
        if transcript.negotiated.is_none() {
            let mut out = Vec::new();
            loop {
                let before = out.len();
                let progress = session.handle_handshake(piece, exports, &mut out);
                piece = &piece[progress.consumed..];
                assert!(out.len() <= REPLIES_HIGH_WATER.max(before) + listing + 200);
                assert!(session.allocated_bytes() < 2 * OPTION_DATA_MAX);
                if progress.state == HandshakeState::NeedOutput {
                    assert!(out.len() >= REPLIES_HIGH_WATER);
                    transcript.replies.append(&mut out);
                    continue;
                }
                transcript.replies.append(&mut out);
                match progress.state {
                    HandshakeState::NeedInput => assert!(piece.is_empty()),
                    HandshakeState::StartTls => {
                        // The harness's TLS leaves bytes as they are.
                        assert!(tls != TlsMode::Off && !transcript.encrypted);
                        let again = session.handle_handshake(piece, exports, &mut out);
                        assert_eq!(
                            (again.consumed, again.state, out.len()),
                            (0, progress.state, 0)
                        );
                        session.tls_started();
                        transcript.encrypted = true;
                        continue;
                    }
                    HandshakeState::Transmission(negotiated) => {
                        assert!(tls != TlsMode::Required || transcript.encrypted);
                        transcript.negotiated = Some(negotiated);
                    }
                    HandshakeState::Closed(reason) => {
                        transcript.closed = Some(reason);
                        return transcript;
                    }
                    HandshakeState::NeedOutput => unreachable!(),
                }
                break;
            }
        }
        if let Some(transmission) = session.transmission()
            && !requests(transmission, piece, &mut transcript)
        {
            return transcript;
        }
    }
    transcript
}

/// Parses one piece; false when the connection is at its end.
fn requests(
    transmission: &mut Transmission,
    mut piece: &[u8],
    transcript: &mut Transcript,
) -> bool {
    loop {
        let owed = transmission.payload_remaining();
        let parsed = transmission.parse(piece);
        piece = &piece[parsed.consumed..];
        match parsed.item {
            Item::NeedMore { bytes } => {
                assert!(piece.is_empty());
                assert!((1..=DRAIN_MAX as usize + 32).contains(&bytes));
                return true;
            }
            Item::Payload { len } => {
                assert!(len > 0 && len == parsed.consumed && len <= owed as usize);
                assert_eq!(transmission.payload_remaining(), owed - len as u32);
                if let Some(Item::Payload { len: before }) = transcript.items.last_mut() {
                    *before += len;
                    continue;
                }
            }
            Item::Request(command) => {
                assert!(command.op != Op::Write && owed == 0);
                check(transmission.negotiated(), &command);
                answer(transmission, &command, &mut transcript.replies);
            }
            Item::Write(command) => {
                assert!(command.op == Op::Write && owed == 0);
                assert_eq!(u64::from(transmission.payload_remaining()), command.len);
                check(transmission.negotiated(), &command);
                answer(transmission, &command, &mut transcript.replies);
            }
            Item::Refused(refusal) => refuse(transmission, &refusal, &mut transcript.replies),
            Item::Disconnect | Item::Broken(_) => {
                assert_eq!(transmission.parse(piece).item, parsed.item);
                transcript.items.push(parsed.item);
                return false;
            }
        }
        transcript.items.push(parsed.item);
    }
}

/// What [`Command`] promises.
fn check(negotiated: &Negotiated, command: &Command) {
    let Command { op, offset, len, .. } = *command;
    let end = offset.checked_add(len).expect("no range overflows");
    assert!(end <= negotiated.size, "{command:?}");
    assert_eq!((offset | len) % u64::from(negotiated.block_sizes.minimum()), 0);
    assert_eq!(len == 0, op == Op::Flush, "{command:?}");
    if matches!(op, Op::Read { .. } | Op::Write) {
        assert!(len <= negotiated.block_sizes.maximum().into());
    }
    let writes = matches!(op, Op::Write | Op::Trim | Op::WriteZeroes { .. });
    assert!(!(writes && negotiated.flags.contains(TransmissionFlags::READ_ONLY)));
    assert!(!command.fua || negotiated.flags.contains(TransmissionFlags::FUA));
    if let Op::BlockStatus { contexts, .. } = op {
        assert!(!contexts.is_empty() && negotiated.structured_replies);
        assert!(contexts.iter().all(|context| negotiated.contexts.contains(context)));
        assert!(contexts == negotiated.contexts || negotiated.extended_headers);
    }
    // What we understood is what a client would have said.
    let mut request = Vec::new();
    Client::new(connected(negotiated)).request(command, &mut request);
    let again = Transmission::new(*negotiated).parse(&request);
    assert!(matches!(again.item, Item::Request(c) | Item::Write(c) if c == *command));
}

/// Answers as a server would, good or bad, and lets the client take the reply apart.
fn answer(transmission: &Transmission, command: &Command, replies: &mut Vec<u8>) {
    let format = transmission.replies();
    let mut reply = Vec::new();
    let fails = command.cookie.0 % 5 == 1;
    match command.op {
        _ if fails => {
            format.error_at(command.mark(), ErrorCode::Io, command.offset, "as told", &mut reply);
        }
        Op::Read { .. } => {
            reply.extend_from_slice(&format.data(command.mark(), command.len as u32));
            reply.resize(reply.len() + command.len as usize, 0xda);
        }
        Op::BlockStatus { .. } => {
            let extents = (0..command.cookie.0 % 4).map(|i| Extent {
                len: i * 700,
                hole: i % 2 == 0,
                zero: i == 2,
            });
            let extents: Vec<Extent> = extents.collect();
            assert!(block_status(format, command, &extents, &mut reply) > 0);
        }
        _ => reply.extend_from_slice(&format.done(command.mark())),
    }
    let last = understand(transmission.negotiated(), command, &reply);
    assert_eq!(last.is_some(), fails);
    // Read data is always the same; its head tells all.
    reply.truncate(64);
    replies.extend(reply);
}

fn refuse(transmission: &Transmission, refusal: &Refusal, replies: &mut Vec<u8>) {
    let start = replies.len();
    transmission.replies().refusal(refusal, replies);
    // Whatever was asked: an error fits every request.
    let (op, offset) = (Op::Read { whole: true }, refusal.mark.offset);
    let command = Command { cookie: refusal.mark.cookie, op, fua: false, offset, len: 1 };
    let told = understand(transmission.negotiated(), &command, &replies[start..]);
    assert_eq!(told, Some(refusal.error));
}

/// What the client of a connection knows.
fn connected(negotiated: &Negotiated) -> Connected {
    let id = |context: Context| negotiated.contexts.contains(context).then_some(context.id());
    Connected {
        size: negotiated.size,
        flags: negotiated.flags,
        block_sizes: negotiated.block_sizes,
        extended_headers: negotiated.extended_headers,
        structured_replies: negotiated.structured_replies,
        contexts: Context::ALL.map(id),
    }
}

/// The error in a reply, which must be a whole one.
fn understand(negotiated: &Negotiated, command: &Command, reply: &[u8]) -> Option<ErrorCode> {
    let mut client = Client::new(connected(negotiated));
    client.request(command, &mut Vec::new());
    let mut rest = reply;
    let mut failed = None;
    loop {
        let parsed = client.parse(rest).expect("our own replies are right");
        rest = &rest[parsed.consumed..];
        match parsed.reply {
            Reply::Done { cookie } => {
                assert_eq!(cookie, command.cookie);
                assert!(rest.is_empty() && client.in_flight() == 0);
                return failed;
            }
            Reply::Error { error, .. } => failed = Some(error),
            Reply::NeedMore { .. } => panic!("reply to {command:?} is cut short"),
            Reply::Data { .. }
            | Reply::Payload { .. }
            | Reply::Hole { .. }
            | Reply::Status { .. } => {}
        }
    }
}
