//! Client and server against each other: what one says the other understands, however the bytes
//! are cut on the way, and in whatever order replies go.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_nbd::client::{Client, Connected, Connecting, Reply, Wishes};
use weir_nbd::{
    BlockSizes, Command, Context, Contexts, Cookie, ErrorCode, Export, ExportId, Extent, Features,
    HandshakeState, Item, Op, ReplyFormat, Session, TlsMode, TransmissionFlags, block_status,
    wire::{OPTION_MAGIC, opt},
};

/// More than a request without extended headers can name.
const SIZE: u64 = 1 << 40;

fn exports(features: Features) -> Vec<Export> {
    vec![Export {
        id: ExportId(5),
        name: "vm1".into(),
        description: String::new(),
        size: SIZE,
        features,
        block_sizes: BlockSizes::DEFAULT,
    }]
}

fn features() -> impl Strategy<Value = Features> {
    any::<[bool; 9]>().prop_map(|on| Features {
        read_only: on[0],
        flush: on[1],
        fua: on[2],
        rotational: on[3],
        trim: on[4],
        write_zeroes: on[5],
        fast_zero: on[6],
        multi_conn: on[7],
        cache: on[8],
    })
}

fn everything() -> Features {
    Features {
        read_only: false,
        flush: true,
        fua: true,
        rotational: false,
        trim: true,
        write_zeroes: true,
        fast_zero: true,
        multi_conn: true,
        cache: true,
    }
}

/// Sizes of pieces, used in turn.
fn cuts() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![1..4_usize, 10..60_usize, 500..5000_usize], 1..6)
}

const BOTH: Contexts = Contexts::NONE.with(Context::Allocation).with(Context::AllocationDepth);

/// A valid request where both contexts were selected, but for the cookie; of extended headers in what it may ask.
fn command(extended: bool) -> impl Strategy<Value = Command> {
    let len_max = if extended { SIZE } else { u32::MAX.into() };
    let contexts = prop_oneof![
        Just(BOTH),
        Just(Contexts::NONE.with(Context::Allocation)),
        Just(Contexts::NONE.with(Context::AllocationDepth)),
    ];
    let contexts = contexts.prop_map(move |some| if extended { some } else { BOTH });
    let op = prop_oneof![
        any::<bool>().prop_map(|whole| Op::Read { whole }),
        Just(Op::Write),
        Just(Op::Flush),
        Just(Op::Trim),
        any::<[bool; 2]>().prop_map(|[no_hole, fast]| Op::WriteZeroes { no_hole, fast }),
        Just(Op::Cache),
        (any::<bool>(), contexts).prop_map(|(one, contexts)| Op::BlockStatus { one, contexts }),
    ];
    let len = prop_oneof![1..3000_u64, 1..len_max];
    (op, any::<bool>(), 0..SIZE, len).prop_map(|(op, fua, offset, len)| {
        let (offset, len) = match op {
            Op::Flush => (0, 0),
            Op::Read { .. } | Op::Write => (offset, (1 + len % 3000).min(SIZE - offset)),
            _ => (offset, len.min(SIZE - offset)),
        };
        Command { cookie: Cookie(0), op, fua, offset, len }
    })
}

fn pieces<'a>(mut bytes: &'a [u8], cuts: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut sizes = cuts.iter().cycle();
    std::iter::from_fn(move || {
        let size = *sizes.next()?;
        let (piece, rest) = bytes.split_at(size.min(bytes.len()));
        bytes = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Carries the handshake through, cutting both directions.
fn connect(features: Features, wishes: &Wishes, cuts: &[usize]) -> (Session, Connected) {
    let exports = exports(features);
    let mut session = Session::new();
    let mut connecting = Connecting::new(wishes.clone());
    let mut to_client = session.greeting().to_vec();
    loop {
        let mut to_server = Vec::new();
        let mut done = None;
        for piece in pieces(&to_client, cuts) {
            let progress = connecting.handle_input(piece, &mut to_server).unwrap();
            assert_eq!(progress.consumed, piece.len());
            done = progress.connected;
        }
        if let Some(connected) = done {
            assert!(to_server.is_empty());
            return (session, connected);
        }
        to_client.clear();
        for piece in pieces(&to_server, cuts) {
            let progress = session.handle_handshake(piece, &exports, &mut to_client);
            assert_eq!(progress.consumed, piece.len());
            assert!(!matches!(progress.state, HandshakeState::Closed(_)), "{progress:?}");
        }
    }
}

/// All requests in `bytes`, and the payload of all writes.
fn receive(session: &mut Session, bytes: &[u8], cuts: &[usize]) -> (Vec<Command>, Vec<u8>) {
    let transmission = session.transmission().expect("connected");
    let (mut commands, mut payload) = (Vec::new(), Vec::new());
    for mut piece in pieces(bytes, cuts) {
        loop {
            let parsed = transmission.parse(piece);
            let (now, rest) = piece.split_at(parsed.consumed);
            piece = rest;
            match parsed.item {
                Item::NeedMore { .. } => break,
                Item::Request(command) | Item::Write(command) => commands.push(command),
                Item::Payload { .. } => payload.extend_from_slice(now),
                item => panic!("{item:?}"),
            }
        }
    }
    (commands, payload)
}

/// All replies in `bytes`, and the data of all reads in the order it came.
fn answers(client: &mut Client, bytes: &[u8], cuts: &[usize]) -> (Vec<Reply>, Vec<u8>) {
    let (mut replies, mut data) = (Vec::new(), Vec::new());
    for mut piece in pieces(bytes, cuts) {
        loop {
            let parsed = client.parse(piece).unwrap();
            let (now, rest) = piece.split_at(parsed.consumed);
            piece = rest;
            match parsed.reply {
                Reply::NeedMore { .. } => break,
                Reply::Payload { .. } => data.extend_from_slice(now),
                reply => replies.push(reply),
            }
        }
    }
    (replies, data)
}

fn wishes(structured_replies: bool, extended_headers: bool, contexts: Contexts) -> Wishes {
    Wishes { export: "vm1".into(), structured_replies, extended_headers, contexts }
}

/// Bytes that tell where they belong.
fn content(offset: u64, len: u64) -> impl Iterator<Item = u8> {
    (offset..offset + len).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 16) as u8)
}

/// An option that does not end the handshake: negotiations, questions about an export, and what no server knows.
fn harmless_option() -> impl Strategy<Value = Vec<u8>> {
    let contexts = b"\0\0\0\x03vm1\0\0\0\x01\0\0\0\x0fbase:allocation";
    let data = prop_oneof![
        Just((opt::STRUCTURED_REPLY, vec![])),
        Just((opt::EXTENDED_HEADERS, vec![])),
        Just((opt::SET_META_CONTEXT, contexts.to_vec())),
        Just((opt::INFO, b"\0\0\0\x03vm1\0\0".to_vec())),
        Just((opt::LIST, vec![])),
        (100..u32::MAX, vec(any::<u8>(), 0..40)),
    ];
    data.prop_map(|(number, data)| {
        let len = data.len() as u32;
        [&OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &len.to_be_bytes(), &data].concat()
    })
}

/// Feeds `input` cut to pieces; what was answered, and whether TLS is to start, which is then the end of the input.
fn feed(session: &mut Session, input: &[u8], cuts: &[usize]) -> (Vec<u8>, bool) {
    let (exports, mut out, mut starts) = (exports(everything()), Vec::new(), false);
    for piece in pieces(input, cuts) {
        assert!(!starts, "bytes behind STARTTLS");
        let progress = session.handle_handshake(piece, &exports, &mut out);
        assert_eq!(progress.consumed, piece.len());
        starts = progress.state == HandshakeState::StartTls;
        assert!(starts || progress.state == HandshakeState::NeedInput, "{progress:?}");
    }
    (out, starts)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_sides_agree_on_what_was_negotiated(
        features in features(),
        structured: bool,
        extended: bool,
        wished in prop_oneof![Just(Contexts::NONE), Just(BOTH), Just(BOTH)],
        cuts in cuts(),
    ) {
        let wishes = wishes(structured, extended, wished);
        let (mut session, connected) = connect(features, &wishes, &cuts);
        let has_chunks = structured || extended;
        let contexts = if has_chunks { wished } else { Contexts::NONE };
        let negotiated = *session.transmission().unwrap().negotiated();
        prop_assert_eq!(negotiated.export, ExportId(5));
        prop_assert_eq!(connected.size, negotiated.size);
        prop_assert_eq!(connected.flags, negotiated.flags);
        let mut flags = features.transmission_flags(has_chunks);
        if extended && !contexts.is_empty() {
            flags = flags.with(TransmissionFlags::BLOCK_STATUS_PAYLOAD);
        }
        prop_assert_eq!(connected.flags, flags);
        prop_assert_eq!(connected.block_sizes, negotiated.block_sizes);
        prop_assert_eq!(connected.structured_replies, has_chunks);
        prop_assert_eq!(negotiated.structured_replies, has_chunks);
        prop_assert_eq!(connected.extended_headers, extended);
        prop_assert_eq!(negotiated.extended_headers, extended);
        prop_assert_eq!(connected.granted(), contexts);
        prop_assert_eq!(negotiated.contexts, contexts);
    }

    #[test]
    fn requests_arrive_as_they_were_sent(
        (extended, commands) in any::<bool>()
            .prop_flat_map(|extended| (Just(extended), vec(command(extended), 1..20))),
        cuts in cuts(),
    ) {
        let (mut session, connected) = connect(everything(), &wishes(true, extended, BOTH), &cuts);
        let mut client = Client::new(connected);
        let (mut bytes, mut written, mut sent) = (Vec::new(), Vec::new(), Vec::new());
        for (cookie, command) in (0..).map(Cookie).zip(commands) {
            let command = Command { cookie, ..command };
            client.request(&command, &mut bytes);
            if command.op == Op::Write {
                bytes.extend(content(command.offset, command.len));
                written.extend(content(command.offset, command.len));
            }
            sent.push(command);
        }
        let (received, payload) = receive(&mut session, &bytes, &cuts);
        prop_assert_eq!(received, sent);
        prop_assert_eq!(payload, written);
    }

    #[test]
    fn replies_in_any_order_find_their_requests(
        (extended, commands) in any::<bool>().prop_flat_map(|extended| {
            (Just(extended), vec((command(extended), 0..4_u8), 1..20).prop_shuffle())
        }),
        structured: bool,
        cuts in cuts(),
    ) {
        let wishes = wishes(structured, extended, BOTH);
        let (mut session, connected) = connect(everything(), &wishes, &cuts);
        let format = session.transmission().unwrap().replies();
        let structured = format != ReplyFormat::Simple;
        let mut client = Client::new(connected);
        let (mut bytes, mut expected, mut read) = (Vec::new(), Vec::new(), Vec::new());
        let commands: Vec<_> = (0..)
            .map(Cookie)
            .zip(commands)
            .filter(|(_, (command, _))| structured || !matches!(command.op, Op::BlockStatus { .. }))
            .map(|(cookie, (command, how))| (Command { cookie, ..command }, how))
            .collect();
        for (command, _) in &commands {
            client.request(command, &mut Vec::new());
        }
        for (command, how) in commands.into_iter().rev() {
            let (Command { cookie, op, offset, len, .. }, mark) = (command, command.mark());
            if how == 0 {
                format.error(mark, ErrorCode::Io, "as told", &mut bytes);
                let message = if structured { "as told".into() } else { String::new() };
                expected.push(Reply::Error { cookie, error: ErrorCode::Io, offset: None, message });
            } else if let Op::BlockStatus { one, contexts } = op {
                // A hole, data, and what is beyond the request.
                let extents = [(len / 2, true), (len - len / 2, false), (1 << 36, false)];
                let extents = extents.map(|(len, hole)| Extent { len, hole, zero: hole });
                block_status(format, &command, &extents, &mut bytes);
                let told: Vec<Extent> = extents.into_iter().filter(|extent| extent.len > 0).collect();
                for context in contexts.iter() {
                    let mut extents = told[..told.len() - 1].to_vec();
                    extents.truncate(if one { 1 } else { 2 });
                    if !extended && extents[0].len > 0xffff_0000 {
                        extents = vec![Extent { len: 0xffff_0000, ..extents[0] }];
                    }
                    if context == Context::AllocationDepth {
                        extents.iter_mut().for_each(|extent| extent.zero = false);
                    }
                    expected.push(Reply::Status { cookie, context, extents });
                }
            } else if matches!(op, Op::Read { .. }) && structured && how == 1 && len > 1 {
                // A hole, then data, then the end.
                let hole = len / 2;
                let (at, rest) = (offset + hole, len - hole);
                let (short_hole, short_rest) = (hole as u32, rest as u32);
                bytes.extend_from_slice(&format.hole_chunk(mark, offset, short_hole, false));
                bytes.extend_from_slice(&format.data_chunk(mark, at, short_rest, false));
                bytes.extend(content(at, rest));
                bytes.extend_from_slice(&format.none_chunk(mark));
                read.extend(content(at, rest));
                expected.push(Reply::Hole { cookie, offset, len: short_hole });
                expected.push(Reply::Data { cookie, offset: at, len: short_rest });
            } else if matches!(op, Op::Read { .. }) {
                bytes.extend_from_slice(&format.data(mark, len as u32));
                bytes.extend(content(offset, len));
                read.extend(content(offset, len));
                expected.push(Reply::Data { cookie, offset, len: len as u32 });
            } else {
                bytes.extend_from_slice(&format.done(mark));
            }
            expected.push(Reply::Done { cookie });
        }
        let (replies, data) = answers(&mut client, &bytes, &cuts);
        prop_assert_eq!(replies, expected);
        prop_assert_eq!(data, read);
        prop_assert_eq!(client.in_flight(), 0);
    }

    #[test]
    fn inside_tls_a_session_answers_as_a_new_one(
        before in vec(harmless_option(), 0..8),
        after in vec(harmless_option(), 0..8),
        required: bool,
        cuts in cuts(),
    ) {
        let tls = if required { TlsMode::Required } else { TlsMode::Allowed };
        let (before, after) = (before.concat(), after.concat());
        let starttls = [&OPTION_MAGIC.to_be_bytes()[..], &opt::STARTTLS.to_be_bytes(), &[0; 4]].concat();
        let mut session = Session::with_tls(tls);
        let plain = [&[0, 0, 0, 3][..], &before, &starttls].concat();
        prop_assert!(feed(&mut session, &plain, &cuts).1);
        session.tls_started();
        let (answers, _) = feed(&mut session, &after, &cuts);
        let (expected, _) = feed(&mut Session::new(), &[&[0, 0, 0, 3][..], &after].concat(), &cuts);
        prop_assert_eq!(answers, expected);
    }
}
