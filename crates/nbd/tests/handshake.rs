//! The handshake, byte for byte, as a server sees it.

use weir_nbd::wire::{
    ALLOCATION_DEPTH, BASE_ALLOCATION, OPTION_MAGIC, OPTION_REPLY_MAGIC, info, opt, rep,
};
use weir_nbd::{
    BlockSizes, CloseReason, Command, Context, Contexts, Cookie, Denial, ErrorCode, Export,
    ExportId, Exports, Features, HandshakeState, Item, Negotiated, OPTION_DATA_MAX, OPTIONS_MAX,
    Op, REPLIES_HIGH_WATER, Session, TlsMode, TransmissionFlags,
};

fn exports() -> Vec<Export> {
    let features = Features { flush: true, fua: true, ..Features::default() };
    let block_sizes = BlockSizes::new(1, 4096, 1 << 20).unwrap();
    let export = |id, name: &str, description: &str, size| Export {
        id: ExportId(id),
        name: name.into(),
        description: description.into(),
        size,
        features,
        block_sizes,
    };
    vec![export(0, "", "", 4096), export(7, "vm1", "the first", 1 << 30)]
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    announce(option, data.len() as u32, data)
}

/// An option whose header says `len`, whatever the data.
fn announce(option: u32, len: u32, data: &[u8]) -> Vec<u8> {
    [&OPTION_MAGIC.to_be_bytes()[..], &option.to_be_bytes(), &len.to_be_bytes(), data].concat()
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn info_data(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((kinds.len() as u16).to_be_bytes());
    data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| string(query)));
    data
}

/// A session that has the client's flags.
fn session(flags: u32) -> Session {
    session_with_tls(flags, TlsMode::Off)
}

fn session_with_tls(flags: u32, tls: TlsMode) -> Session {
    let mut session = Session::with_tls(tls);
    let progress = session.handle_handshake(&flags.to_be_bytes(), &exports(), &mut Vec::new());
    assert_eq!(progress.state, HandshakeState::NeedInput);
    session
}

fn say(session: &mut Session, input: &[u8]) -> (HandshakeState, Vec<u8>) {
    let mut out = Vec::new();
    let progress = session.handle_handshake(input, &exports(), &mut out);
    (progress.state, out)
}

/// Type and data of each reply, all to `option`.
fn replies(option: u32, mut out: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut replies = Vec::new();
    while !out.is_empty() {
        let (head, rest) = out.split_at(20);
        assert_eq!(head[..8], OPTION_REPLY_MAGIC.to_be_bytes());
        assert_eq!(head[8..12], option.to_be_bytes());
        let kind = u32::from_be_bytes(head[12..16].try_into().unwrap());
        let len = u32::from_be_bytes(head[16..].try_into().unwrap()) as usize;
        replies.push((kind, rest[..len].to_vec()));
        out = &rest[len..];
    }
    replies
}

/// The type of the only reply to an option that leaves the handshake going.
fn only_reply(session: &mut Session, number: u32, data: &[u8]) -> u32 {
    let (state, out) = say(session, &option(number, data));
    assert_eq!(state, HandshakeState::NeedInput);
    let replies = replies(number, &out);
    assert_eq!(replies.len(), 1, "{replies:?}");
    replies[0].0
}

#[test]
fn the_greeting_offers_fixed_newstyle_without_zeroes() {
    assert_eq!(&Session::new().greeting(), b"NBDMAGICIHAVEOPT\x00\x03");
}

#[test]
fn unknown_client_flags_close() {
    for flags in [4, 1 << 31, u32::MAX] {
        let state = say(&mut Session::new(), &flags.to_be_bytes()).0;
        assert_eq!(state, HandshakeState::Closed(CloseReason::ClientFlags { flags }));
    }
}

#[test]
fn option_go_sends_the_requested_information_and_enters_transmission() {
    let mut session = session(3);
    let kinds = [info::BLOCK_SIZE, info::NAME, info::DESCRIPTION, 99];
    let mut input = option(opt::GO, &info_data("vm1", &kinds));
    let go_len = input.len();
    input.extend(b"what follows is transmission");
    let mut out = Vec::new();
    let progress = session.handle_handshake(&input, &exports(), &mut out);

    let flags = TransmissionFlags(0b1101);
    assert_eq!(progress.consumed, go_len);
    let negotiated = Negotiated {
        export: ExportId(7),
        size: 1 << 30,
        flags,
        block_sizes: BlockSizes::new(1, 4096, 1 << 20).unwrap(),
        extended_headers: false,
        structured_replies: false,
        contexts: Contexts::NONE,
    };
    assert_eq!(progress.state, HandshakeState::Transmission(negotiated));
    assert_eq!(session.transmission().unwrap().negotiated(), &negotiated);
    let size = [&[0, 0][..], &(1_u64 << 30).to_be_bytes(), &flags.0.to_be_bytes()].concat();
    assert_eq!(
        replies(opt::GO, &out),
        [
            (rep::INFO, size),
            (rep::INFO, b"\x00\x01vm1".to_vec()),
            (rep::INFO, b"\x00\x02the first".to_vec()),
            (rep::INFO, b"\x00\x03\x00\x00\x00\x01\x00\x00\x10\x00\x00\x10\x00\x00".to_vec()),
            (rep::ACK, vec![]),
        ]
    );
}

#[test]
fn option_info_replies_like_go_and_stays_in_the_handshake() {
    let mut session = session(3);
    let (state, out) = say(&mut session, &option(opt::INFO, &info_data("", &[])));
    assert_eq!(state, HandshakeState::NeedInput);
    let kinds: Vec<u32> = replies(opt::INFO, &out).iter().map(|reply| reply.0).collect();
    assert_eq!(kinds, [rep::INFO, rep::ACK]);
    assert!(session.transmission().is_none());
    assert_eq!(only_reply(&mut session, opt::INFO, &info_data("vm2", &[])), rep::ERR_UNKNOWN);
    assert_eq!(only_reply(&mut session, opt::GO, &info_data("vm2", &[])), rep::ERR_UNKNOWN);
    assert_eq!(only_reply(&mut session, opt::GO, b"\0\0\0\x09vm1"), rep::ERR_INVALID);
}

#[test]
fn export_name_answers_in_its_own_form() {
    for (flags, zeroes) in [(3, 0), (1, 124), (0, 124), (2, 0)] {
        let mut session = session(flags);
        let (state, out) = say(&mut session, &option(opt::EXPORT_NAME, b"vm1"));
        assert!(matches!(state, HandshakeState::Transmission(_)), "{state:?}");
        assert_eq!(out[..10], [0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0b1101]);
        assert_eq!(out[10..], vec![0; zeroes]);
    }
    let (state, out) = say(&mut session(3), &option(opt::EXPORT_NAME, b""));
    assert!(matches!(state, HandshakeState::Transmission(_)), "{state:?}");
    assert_eq!(out[6..8], [0x10, 0], "the default export has 4096 bytes");
}

#[test]
fn export_name_can_only_fail_by_closing() {
    let long = vec![b'x'; 4097];
    for (name, reason) in [
        (&b"vm2"[..], CloseReason::UnknownExport),
        (b"\xff", CloseReason::BadExportName { len: 1 }),
        (&long, CloseReason::BadExportName { len: 4097 }),
    ] {
        let (state, out) = say(&mut session(3), &option(opt::EXPORT_NAME, name));
        assert_eq!(state, HandshakeState::Closed(reason));
        assert_eq!(out, []);
    }
}

#[test]
fn list_names_every_export() {
    let mut session = session(3);
    let (_, out) = say(&mut session, &option(opt::LIST, b""));
    assert_eq!(
        replies(opt::LIST, &out),
        [
            (rep::SERVER, b"\0\0\0\0".to_vec()),
            (rep::SERVER, b"\0\0\0\x03vm1the first".to_vec()),
            (rep::ACK, vec![]),
        ]
    );
}

#[test]
fn abort_is_acknowledged_at_once() {
    // The data it should not have is not waited for.
    let (state, out) = say(&mut session(3), &announce(opt::ABORT, 1000, b""));
    assert_eq!(state, HandshakeState::Closed(CloseReason::Aborted));
    assert_eq!(replies(opt::ABORT, &out), [(rep::ACK, vec![])]);
}

#[test]
fn options_that_are_refused_keep_the_stream_in_step() {
    let mut session = session(3);
    for (number, data, kind) in [
        (opt::STARTTLS, &b""[..], rep::ERR_POLICY),
        (opt::STARTTLS, b"x", rep::ERR_INVALID),
        (opt::EXTENDED_HEADERS, b"x", rep::ERR_INVALID),
        (4, b"peek", rep::ERR_UNSUP),
        (u32::MAX, &[0; 70_000], rep::ERR_UNSUP),
        (opt::LIST, b"x", rep::ERR_INVALID),
        (opt::STRUCTURED_REPLY, b"x", rep::ERR_INVALID),
        (opt::GO, &[0; 70_000], rep::ERR_TOO_BIG),
        (opt::STRUCTURED_REPLY, b"", rep::ACK),
    ] {
        assert_eq!(only_reply(&mut session, number, data), kind, "option {number}");
        assert_eq!(session.allocated_bytes(), 0);
    }
}

#[test]
fn structured_replies_are_negotiated_once() {
    let mut session = session(3);
    assert_eq!(only_reply(&mut session, opt::STRUCTURED_REPLY, b""), rep::ACK);
    assert_eq!(only_reply(&mut session, opt::STRUCTURED_REPLY, b""), rep::ERR_INVALID);
    let (state, _) = say(&mut session, &option(opt::GO, &info_data("vm1", &[])));
    let HandshakeState::Transmission(negotiated) = state else { panic!("{state:?}") };
    assert!(negotiated.structured_replies, "the first time counts");
}

#[test]
fn block_status_needs_the_context_of_the_same_export() {
    let contexts = context_data("vm1", &["base:allocation", "qemu:allocation-depth", "qemu:x"]);
    let mut session = session(3);
    assert_eq!(only_reply(&mut session, opt::SET_META_CONTEXT, &contexts), rep::ERR_INVALID);
    assert_eq!(only_reply(&mut session, opt::STRUCTURED_REPLY, b""), rep::ACK);

    let (_, out) = say(&mut session, &option(opt::SET_META_CONTEXT, &contexts));
    let allocation = [&1_u32.to_be_bytes(), BASE_ALLOCATION.as_bytes()].concat();
    let depth = [&2_u32.to_be_bytes(), ALLOCATION_DEPTH.as_bytes()].concat();
    let expected =
        [(rep::META_CONTEXT, allocation), (rep::META_CONTEXT, depth), (rep::ACK, vec![])];
    assert_eq!(replies(opt::SET_META_CONTEXT, &out), expected);

    // As clients do, ask and then go; each case from a fresh session.
    let depth = Contexts::NONE.with(Context::AllocationDepth);
    let both = depth.with(Context::Allocation);
    let none = Contexts::NONE;
    for (then, name, allowed) in [
        (None, "vm1", both),
        (None, "", none),
        (Some(context_data("vm1", &["base:"])), "vm1", none),
        (Some(context_data("vm1", &["qemu:allocation-depth"])), "vm1", depth),
        (Some(context_data("vm1", &[])), "vm1", none),
        (Some(context_data("vm2", &["base:allocation"])), "vm1", none),
        (Some(vec![0xff; 3]), "vm1", none),
        (Some(vec![0; OPTION_DATA_MAX + 1]), "vm1", none),
    ] {
        let mut input = option(opt::STRUCTURED_REPLY, b"");
        input.extend(option(opt::SET_META_CONTEXT, &contexts));
        if let Some(data) = &then {
            input.extend(option(opt::SET_META_CONTEXT, data));
        }
        input.extend(option(opt::GO, &info_data(name, &[])));
        let (state, _) = say(&mut self::session(3), &input);
        let HandshakeState::Transmission(negotiated) = state else { panic!("{state:?}") };
        assert!(negotiated.structured_replies);
        assert!(negotiated.flags.contains(TransmissionFlags::DF));
        assert!(!negotiated.flags.contains(TransmissionFlags::BLOCK_STATUS_PAYLOAD));
        assert_eq!(negotiated.contexts, allowed, "after {then:?}, of {name:?}");
    }
}

#[test]
fn contexts_are_listed_by_wildcard_name_or_nothing() {
    for (queries, found) in [
        (&[][..], &[BASE_ALLOCATION, ALLOCATION_DEPTH][..]),
        (&["base:"][..], &[BASE_ALLOCATION]),
        (&["base:allocation"], &[BASE_ALLOCATION]),
        (&["base:allocation", "qemu:"], &[BASE_ALLOCATION, ALLOCATION_DEPTH]),
        (&["qemu:allocation-depth"], &[ALLOCATION_DEPTH]),
        (&["base:other", "qemu:dirty-bitmap:", "no colon"], &[]),
    ] {
        let data = context_data("vm1", queries);
        let (_, out) = say(&mut session(3), &option(opt::LIST_META_CONTEXT, &data));
        let listed = |name: &&str| [&0_u32.to_be_bytes(), name.as_bytes()].concat();
        let mut expected: Vec<_> =
            found.iter().map(|name| (rep::META_CONTEXT, listed(name))).collect();
        expected.push((rep::ACK, vec![]));
        assert_eq!(replies(opt::LIST_META_CONTEXT, &out), expected, "{queries:?}");
    }
}

#[test]
fn extended_headers_replace_structured_replies_and_need_go() {
    for structured_first in [false, true] {
        let mut session = session(3);
        if structured_first {
            assert_eq!(only_reply(&mut session, opt::STRUCTURED_REPLY, b""), rep::ACK);
        }
        assert_eq!(only_reply(&mut session, opt::EXTENDED_HEADERS, b""), rep::ACK);
        assert_eq!(only_reply(&mut session, opt::EXTENDED_HEADERS, b""), rep::ERR_INVALID);
        let refused = only_reply(&mut session, opt::STRUCTURED_REPLY, b"");
        assert_eq!(refused, rep::ERR_EXT_HEADER_REQD);
        let contexts = context_data("vm1", &["base:allocation"]);
        say(&mut session, &option(opt::SET_META_CONTEXT, &contexts));
        let (state, _) = say(&mut session, &option(opt::GO, &info_data("vm1", &[])));
        let HandshakeState::Transmission(negotiated) = state else { panic!("{state:?}") };
        assert!(negotiated.extended_headers && negotiated.structured_replies);
        let flags = TransmissionFlags::DF.with(TransmissionFlags::BLOCK_STATUS_PAYLOAD);
        assert!(negotiated.flags.contains(flags));
        assert_eq!(negotiated.contexts, Contexts::NONE.with(Context::Allocation));
    }
    let mut session = session(3);
    assert_eq!(only_reply(&mut session, opt::EXTENDED_HEADERS, b""), rep::ACK);
    let (state, out) = say(&mut session, &option(opt::EXPORT_NAME, b"vm1"));
    assert_eq!((state, out), (HandshakeState::Closed(CloseReason::NeedsGo), vec![]));
}

#[test]
fn block_sizes_bind_only_a_client_that_was_told() {
    let exports = vec![Export {
        block_sizes: BlockSizes::new(4096, 65_536, 1 << 20).unwrap(),
        ..exports().remove(1)
    }];
    let go = |kinds: &[u16]| option(opt::GO, &info_data("vm1", kinds));
    let info_first = [option(opt::INFO, &info_data("vm1", &[info::BLOCK_SIZE])), go(&[])].concat();
    for (input, told) in [
        (go(&[info::BLOCK_SIZE]), true),
        (go(&[]), false),
        (info_first, false),
        (option(opt::EXPORT_NAME, b"vm1"), false),
    ] {
        let mut session = session(3);
        let state = session.handle_handshake(&input, &exports, &mut Vec::new()).state;
        let HandshakeState::Transmission(negotiated) = state else { panic!("{state:?}") };
        let sizes = negotiated.block_sizes;
        let expected = if told { (4096, 1 << 20) } else { (1, 32 << 20) };
        assert_eq!((sizes.minimum(), sizes.maximum()), expected);
        for (offset, len) in [(512, 4096), (4096, 100), (0, 2 << 20)] {
            let op = Op::Read { whole: false };
            let read = Command { cookie: Cookie(1), op, fua: false, offset, len };
            let item = session.transmission().unwrap().parse(&read.to_bytes()).item;
            match item {
                Item::Refused(refusal) => assert_eq!(refusal.error, ErrorCode::Invalid),
                item => assert_eq!(item, Item::Request(read)),
            }
            assert_eq!(matches!(item, Item::Refused(_)), told, "{offset} {len}");
        }
    }
}

#[test]
fn an_old_client_may_only_name_its_export() {
    let (state, _) = say(&mut session(0), &option(opt::LIST, b""));
    let reason = CloseReason::NotFixedNewstyle { option: opt::LIST };
    assert_eq!(state, HandshakeState::Closed(reason));
}

#[test]
fn garbage_closes_the_session_for_good() {
    let mut session = session(3);
    let closed = HandshakeState::Closed(CloseReason::Magic { magic: 0x4745_5420_2f20_4854 });
    assert_eq!(say(&mut session, b"GET / HTTP/1.1\r\n").0, closed);
    assert_eq!(say(&mut session, &option(opt::LIST, b"")), (closed, vec![]));
}

#[test]
fn too_many_options_close_the_session() {
    let mut session = session(3);
    for _ in 0..OPTIONS_MAX {
        assert_eq!(only_reply(&mut session, 4711, b""), rep::ERR_UNSUP);
    }
    let (state, _) = say(&mut session, &option(4711, b""));
    let reason = CloseReason::TooManyOptions { max: OPTIONS_MAX };
    assert_eq!(state, HandshakeState::Closed(reason));
}

#[test]
fn unread_option_replies_stop_the_handshake() {
    let mut session = session(3);
    let input = option(opt::LIST, b"").repeat(OPTIONS_MAX as usize);
    let mut out = Vec::new();
    let mut rest = &input[..];
    let mut pauses = 0;
    loop {
        let progress = session.handle_handshake(rest, &exports(), &mut out);
        assert!(out.len() < REPLIES_HIGH_WATER + 200, "{} bytes wait", out.len());
        rest = &rest[progress.consumed..];
        match progress.state {
            HandshakeState::NeedOutput => {
                let again = session.handle_handshake(rest, &exports(), &mut out);
                assert_eq!((again.consumed, again.state), (0, HandshakeState::NeedOutput));
                pauses += 1;
                out.clear();
            }
            state => {
                assert_eq!(state, HandshakeState::NeedInput);
                break;
            }
        }
    }
    assert!(rest.is_empty() && pauses > 1);
}

#[test]
fn memory_grows_with_received_bytes_not_with_announced_ones() {
    let mut session = session(3);
    say(&mut session, &announce(opt::GO, OPTION_DATA_MAX as u32, b"abc"));
    assert!(session.allocated_bytes() <= 64);
    say(&mut session, &[b'x'; 40_000]);
    assert!(session.allocated_bytes() < 2 * OPTION_DATA_MAX);
    let (state, out) = say(&mut session, &vec![b'x'; OPTION_DATA_MAX - 40_003]);
    assert_eq!(state, HandshakeState::NeedInput);
    assert_eq!(replies(opt::GO, &out)[0].0, rep::ERR_INVALID);
    assert_eq!(session.allocated_bytes(), 0);
}

#[test]
fn requests_during_shutdown_are_refused_after_the_handshake() {
    let mut session = session(3);
    // An option whose header is in is still answered.
    let go = option(opt::GO, &info_data("vm1", &[]));
    assert_eq!(say(&mut session, &go[..20]).1, []);
    session.shut_down();
    assert!(matches!(say(&mut session, &go[20..]).0, HandshakeState::Transmission(_)));
    // But the requests that follow are not.
    let op = Op::Read { whole: false };
    let read = Command { cookie: Cookie(1), op, fua: false, offset: 0, len: 1 };
    let Item::Refused(refusal) = session.transmission().unwrap().parse(&read.to_bytes()).item
    else {
        panic!("a request was taken")
    };
    assert_eq!(refusal.error, ErrorCode::Shutdown);

    let mut session = self::session(3);
    session.shut_down();
    assert_eq!(only_reply(&mut session, opt::GO, &info_data("vm1", &[])), rep::ERR_SHUTDOWN);
    assert_eq!(only_reply(&mut session, opt::LIST, b""), rep::ERR_SHUTDOWN);
    let (state, out) = say(&mut session, &option(opt::ABORT, b""));
    assert_eq!(state, HandshakeState::Closed(CloseReason::Aborted));
    assert_eq!(replies(opt::ABORT, &out), [(rep::ACK, vec![])]);

    // Which has no other way to say no.
    let mut session = self::session(3);
    session.shut_down();
    let state = say(&mut session, &option(opt::EXPORT_NAME, b"vm1")).0;
    assert_eq!(state, HandshakeState::Closed(CloseReason::Shutdown));
}

#[test]
fn where_tls_is_required_nothing_else_is_answered_before_it() {
    for (number, data) in [
        (opt::LIST, &b""[..]),
        (opt::INFO, &info_data("vm1", &[])),
        (opt::GO, &info_data("vm1", &[])),
        (opt::GO, &[0; 70_000]),
        (opt::STRUCTURED_REPLY, b""),
        (opt::STRUCTURED_REPLY, b"x"),
        (opt::SET_META_CONTEXT, &context_data("vm1", &["base:allocation"])),
        (opt::LIST_META_CONTEXT, b"junk"),
        (opt::EXTENDED_HEADERS, b""),
        (4711, b"unknown"),
    ] {
        let mut session = session_with_tls(3, TlsMode::Required);
        assert_eq!(only_reply(&mut session, number, data), rep::ERR_TLS_REQD, "option {number}");
        assert_eq!(session.allocated_bytes(), 0);
        // STARTTLS is still open.
        assert_eq!(only_reply(&mut session, opt::STARTTLS, b"x"), rep::ERR_INVALID);
        assert_eq!(say(&mut session, &option(opt::STARTTLS, b"")).0, HandshakeState::StartTls);
    }
    let mut session = session_with_tls(3, TlsMode::Required);
    let (state, out) = say(&mut session, &option(opt::EXPORT_NAME, b"vm1"));
    assert_eq!((state, out), (HandshakeState::Closed(CloseReason::TlsRequired), vec![]));
    let mut session = session_with_tls(3, TlsMode::Required);
    let (state, out) = say(&mut session, &option(opt::ABORT, b""));
    assert_eq!(state, HandshakeState::Closed(CloseReason::Aborted));
    assert_eq!(replies(opt::ABORT, &out), [(rep::ACK, vec![])]);
}

#[test]
fn tls_starts_once_and_earlier_options_are_forgotten() {
    for tls in [TlsMode::Allowed, TlsMode::Required] {
        let mut session = session_with_tls(3, tls);
        if tls == TlsMode::Allowed {
            assert_eq!(only_reply(&mut session, opt::STRUCTURED_REPLY, b""), rep::ACK);
            let contexts = context_data("vm1", &["base:allocation"]);
            let (_, out) = say(&mut session, &option(opt::SET_META_CONTEXT, &contexts));
            assert_eq!(replies(opt::SET_META_CONTEXT, &out).len(), 2);
        }
        let mut out = Vec::new();
        let mut input = option(opt::STARTTLS, b"");
        let consumed = input.len();
        // An option sent behind it in plain text, as if it had come through TLS.
        input.extend(option(opt::GO, &info_data("vm1", &[])));
        let progress = session.handle_handshake(&input, &exports(), &mut out);
        assert_eq!((progress.consumed, progress.state), (consumed, HandshakeState::StartTls));
        assert_eq!(replies(opt::STARTTLS, &out), [(rep::ACK, vec![])]);
        let again = session.handle_handshake(&input[consumed..], &exports(), &mut Vec::new());
        assert_eq!((again.consumed, again.state), (0, HandshakeState::StartTls));

        session.tls_started();
        assert_eq!(only_reply(&mut session, opt::STARTTLS, b""), rep::ERR_INVALID);
        let (state, _) = say(&mut session, &option(opt::GO, &info_data("vm1", &[])));
        let HandshakeState::Transmission(negotiated) = state else { panic!("{state:?}") };
        assert!(!negotiated.structured_replies && !negotiated.extended_headers);
        assert!(negotiated.contexts.is_empty());
    }
}

#[test]
#[should_panic(expected = "TLS starts when STARTTLS is granted")]
fn tls_cannot_start_unasked() {
    session_with_tls(3, TlsMode::Allowed).tls_started();
}

/// `vm1` is for holders of a certificate, the default export for no client.
struct Guarded(Vec<Export>);

impl Exports for Guarded {
    fn find(&self, name: &str) -> Option<&Export> {
        self.0.find(name)
    }

    fn list(&self, _visit: &mut dyn FnMut(&Export)) {}

    fn may_use(&self, export: &Export) -> Result<(), Denial> {
        match export.name.as_str() {
            "vm1" => Err(Denial::Certificate("by certificate")),
            _ => Err(Denial::Policy("never")),
        }
    }
}

#[test]
fn an_export_that_a_client_may_not_use_tells_it_nothing() {
    let exports = Guarded(exports());
    let contexts = |name| context_data(name, &["base:allocation"]);
    for (tls, of_vm1) in [(TlsMode::Off, rep::ERR_POLICY), (TlsMode::Allowed, rep::ERR_TLS_REQD)] {
        for (name, kind, words) in
            [("vm1", of_vm1, &b"by certificate"[..]), ("", rep::ERR_POLICY, b"never")]
        {
            for (number, data) in [
                (opt::INFO, info_data(name, &[info::NAME])),
                (opt::GO, info_data(name, &[info::BLOCK_SIZE])),
                (opt::LIST_META_CONTEXT, contexts(name)),
            ] {
                let (mut session, mut out) = (session_with_tls(3, tls), Vec::new());
                let input = option(number, &data);
                let progress = session.handle_handshake(&input, &exports, &mut out);
                assert_eq!(progress.state, HandshakeState::NeedInput);
                assert_eq!(replies(number, &out), [(kind, words.to_vec())]);
            }
            let (mut session, mut out) = (session_with_tls(3, tls), Vec::new());
            let input = option(opt::EXPORT_NAME, name.as_bytes());
            let progress = session.handle_handshake(&input, &exports, &mut out);
            let words = str::from_utf8(words).unwrap();
            assert!(matches!(
                progress.state,
                HandshakeState::Closed(CloseReason::NotAdmitted(told)) if told == words
            ));
            assert_eq!(out, []);
        }
    }
}

/// Exports that this client may only read.
struct Readable(Vec<Export>);

impl Exports for Readable {
    fn find(&self, name: &str) -> Option<&Export> {
        self.0.find(name)
    }

    fn list(&self, visit: &mut dyn FnMut(&Export)) {
        self.0.list(visit);
    }

    fn features(&self, export: &Export) -> Features {
        Features { read_only: true, ..export.features }
    }
}

#[test]
fn a_client_is_told_what_it_may_do_itself() {
    let exports = Readable(exports());
    for (number, data) in [(opt::EXPORT_NAME, b"vm1".to_vec()), (opt::GO, info_data("vm1", &[]))] {
        let (mut session, mut out) = (session(3), Vec::new());
        let progress = session.handle_handshake(&option(number, &data), &exports, &mut out);
        let HandshakeState::Transmission(negotiated) = progress.state else {
            panic!("{progress:?}")
        };
        assert!(negotiated.flags.contains(TransmissionFlags::READ_ONLY));
        assert!(!negotiated.flags.contains(TransmissionFlags::TRIM));
    }
}
