//! The client under any bytes from a server.

use weir_nbd::client::{Client, ConnectError, Connected, Connecting, Reply, ReplyError, Wishes};
use weir_nbd::{BlockSizes, Command, Context, Contexts, Cookie, Op, TransmissionFlags};

use super::{Cuts, server_script, split};

/// Feeds one stream whole and in pieces, to a client that connects or to one that is connected;
/// both must come to the same. Gives the replies understood.
pub fn client(data: &[u8]) -> Vec<Reply> {
    let Some((settings, cuts, rest)) = split(data) else { return Vec::new() };
    let raw = settings & 8 == 0;
    if settings & 1 == 0 {
        let stream = if raw { rest.to_vec() } else { server_script::handshake(rest) };
        let whole = connect(settings, &stream, Cuts::NONE);
        assert_eq!(whole, connect(settings, &stream, Cuts::new(cuts)));
        Vec::new()
    } else {
        let stream = match (raw, settings & 16 != 0) {
            (true, _) => rest.to_vec(),
            (false, extended) => server_script::replies(rest, extended),
        };
        let whole = replies(settings, &stream, Cuts::NONE);
        assert_eq!(whole, replies(settings, &stream, Cuts::new(cuts)));
        whole.0
    }
}

const BOTH: Contexts = Contexts::NONE.with(Context::Allocation).with(Context::AllocationDepth);

type ConnectTranscript = (Vec<u8>, Result<Option<Connected>, ConnectError>);

fn connect(settings: u8, mut stream: &[u8], mut cuts: Cuts<'_>) -> ConnectTranscript {
    let mut connecting = Connecting::new(Wishes {
        export: "x".into(),
        structured_replies: settings & 2 != 0,
        extended_headers: settings & 16 != 0,
        contexts: if settings & 4 != 0 { BOTH } else { Contexts::NONE },
    });
    let mut out = Vec::new();
    while !stream.is_empty() {
        let piece = cuts.piece(&mut stream);
        match connecting.handle_input(piece, &mut out) {
            Ok(progress) if progress.connected.is_some() => return (out, Ok(progress.connected)),
            Ok(progress) => assert_eq!(progress.consumed, piece.len()),
            Err(error) => return (out, Err(error)),
        }
    }
    (out, Ok(None))
}

fn replies(
    settings: u8,
    mut stream: &[u8],
    mut cuts: Cuts<'_>,
) -> (Vec<Reply>, Option<ReplyError>) {
    let mut client = Client::new(Connected {
        size: 1 << 20,
        flags: TransmissionFlags::HAS_FLAGS,
        block_sizes: BlockSizes::DEFAULT,
        extended_headers: settings & 16 != 0,
        structured_replies: settings & 18 != 0,
        contexts: [(settings & 4 != 0).then_some(1), (settings & 32 != 0).then_some(2)],
    });
    let ops = [
        Op::Read { whole: false },
        Op::Write,
        Op::Flush,
        Op::BlockStatus { one: false, contexts: BOTH },
        Op::Read { whole: true },
    ];
    for (cookie, op) in (0..).zip(ops) {
        let len = if op == Op::Flush { 0 } else { 16 };
        let command = Command { cookie: Cookie(cookie), op, fua: false, offset: 0, len };
        client.request(&command, &mut Vec::new());
    }

    let mut replies = Vec::new();
    while !stream.is_empty() {
        let mut piece = cuts.piece(&mut stream);
        loop {
            let parsed = match client.parse(piece) {
                Ok(parsed) => parsed,
                Err(error) => return (replies, Some(error)),
            };
            piece = &piece[parsed.consumed..];
            match (parsed.reply, replies.last_mut()) {
                (Reply::NeedMore { bytes }, _) => {
                    assert!(piece.is_empty() && bytes > 0);
                    break;
                }
                (Reply::Payload { len: more }, Some(Reply::Payload { len })) => *len += more,
                (reply, _) => replies.push(reply),
            }
        }
    }
    (replies, None)
}
