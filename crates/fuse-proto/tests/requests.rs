//! Messages as a kernel makes them, read back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_fuse_proto::flags::{InitFlags, UNIQUE_RESEND, WriteFlags};
use weir_fuse_proto::wire::{
    BatchForgetIn, CreateIn, ExtensionHeader, ForgetOne, InHeader, InterruptIn, Rename2In,
    SetattrIn, SetxattrIn, SetxattrInExt, WriteIn, opcode,
};
use weir_fuse_proto::{
    FileKind, Forget, Malformed, Op, Request, Session, SetAttr, SetTime, Time, parse,
};
use zerocopy::IntoBytes;

/// A message of a type with parts after its header.
fn message(opcode: u32, parts: &[&[u8]]) -> Vec<u8> {
    let len = 40 + parts.iter().map(|part| part.len()).sum::<usize>();
    let header = InHeader {
        len: len as u32,
        opcode,
        unique: 4,
        node: 7,
        uid: 1000,
        gid: 100,
        pid: 42,
        ..InHeader::default()
    };
    let mut bytes = header.as_bytes().to_vec();
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

fn op<'a>(bytes: &'a [u8], session: &Session) -> Op<'a> {
    let request = parse(bytes, session).unwrap();
    let Request { unique, node, uid, gid, pid, is_resent, .. } = request;
    assert_eq!((unique, node, uid, gid, pid, is_resent), (4, 7, 1000, 100, 42, false));
    request.op
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    vec((1..=255_u8).prop_filter("a slash", |byte| *byte != b'/'), 1..300)
}

/// With its NUL.
fn terminated(name: &[u8]) -> Vec<u8> {
    [name, &[0]].concat()
}

proptest! {
    #[test]
    fn names_come_back(name in name(), other in name(), new_parent: u64, flags: u32) {
        let head = Rename2In { new_parent, flags, padding: 0 };
        let parts = [head.as_bytes(), &terminated(&name), &terminated(&other)];
        let bytes = message(opcode::RENAME2, &parts);
        let (name, new_name) = (OsStr::from_bytes(&name), OsStr::from_bytes(&other));
        let wanted = Op::Rename { name, new_parent, new_name, flags };
        prop_assert_eq!(op(&bytes, &Session::default()), wanted);
    }

    #[test]
    fn data_of_a_write_is_the_messages_own(data in vec(any::<u8>(), 0..5000), fh: u64, offset: u64) {
        let size = data.len() as u32;
        let head = WriteIn { fh, offset, size, write_flags: 1, flags: 2, ..WriteIn::default() };
        let bytes = message(opcode::WRITE, &[head.as_bytes(), &data]);
        let write_flags = WriteFlags::CACHE;
        let wanted = Op::Write { handle: fh, offset, data: &data, flags: 2, write_flags };
        prop_assert_eq!(op(&bytes, &Session::default()), wanted);

        let size = size + 1;
        let bytes = message(opcode::WRITE, &[WriteIn { size, ..head }.as_bytes(), &data]);
        let is_malformed = matches!(parse(&bytes, &Session::default()), Err(Malformed::Body { .. }));
        prop_assert!(is_malformed);
    }

    #[test]
    fn what_is_set_comes_back(
        (handle, mode, uid, gid) in any::<(Option<u64>, Option<u32>, Option<u32>, Option<u32>)>(),
        size: Option<u64>,
        (atime, mtime) in any::<(Option<Option<(i64, u32)>>, Option<Option<(i64, u32)>>)>(),
        kills_suidgid: bool,
    ) {
        let time = |time: Option<Option<(i64, u32)>>| time.map(|at| match at {
            Some((seconds, nanoseconds)) => SetTime::At(Time { seconds, nanoseconds }),
            None => SetTime::Now,
        });
        let wanted = SetAttr {
            handle, mode, uid, gid, size, atime: time(atime), mtime: time(mtime), kills_suidgid,
        };
        let (atime, mtime) = (atime.flatten().unwrap_or_default(), mtime.flatten().unwrap_or_default());
        let head = SetattrIn {
            valid: wanted.flags().bits(),
            fh: handle.unwrap_or(1),
            size: size.unwrap_or(2),
            mode: mode.unwrap_or(3),
            uid: uid.unwrap_or(4),
            gid: gid.unwrap_or(5),
            atime: atime.0,
            atime_ns: atime.1,
            mtime: mtime.0,
            mtime_ns: mtime.1,
            ..SetattrIn::default()
        };
        let bytes = message(opcode::SETATTR, &[head.as_bytes()]);
        prop_assert_eq!(op(&bytes, &Session::default()), Op::Setattr(wanted));
    }

    #[test]
    fn forgotten_nodes_come_back(nodes in vec(any::<(u64, u64)>(), 0..50)) {
        let nodes: Vec<ForgetOne> =
            nodes.into_iter().map(|(node, lookups)| ForgetOne { node, lookups }).collect();
        let head = BatchForgetIn { count: nodes.len() as u32, dummy: 0 };
        let bytes = message(opcode::BATCH_FORGET, &[head.as_bytes(), nodes.as_bytes()]);
        let Op::BatchForget(found) = op(&bytes, &Session::default()) else { panic!("another") };
        let wanted = nodes.iter().map(|&ForgetOne { node, lookups }| Forget { node, lookups });
        prop_assert!(found.eq(wanted));
    }
}

#[test]
fn names_that_lead_elsewhere_are_malformed() {
    for name in [&b"\0"[..], b"a/b\0", b"/\0", b"no end", &[b'a'; 5000]] {
        let bytes = message(opcode::LOOKUP, &[name]);
        assert!(matches!(parse(&bytes, &Session::default()), Err(Malformed::Body { .. })));
    }
    let bytes = message(opcode::READLINK, &[]);
    assert!(matches!(parse(&bytes[..39], &Session::default()), Err(Malformed::Header { len: 39 })));
    let longer = [&bytes[..], b"x"].concat();
    let length = Malformed::Length { len: 41, told: 40 };
    assert_eq!(parse(&longer, &Session::default()), Err(length));
}

#[test]
fn a_setxattr_has_the_form_that_was_agreed_on() {
    let (name, value) = (&b"user.a\0"[..], &b"value"[..]);
    let short = SetxattrIn { size: 5, flags: 1 };
    let long = SetxattrInExt { size: 5, flags: 1, setxattr_flags: 1, padding: 0 };
    let told =
        |kills_sgid| Op::Setxattr { name: OsStr::new("user.a"), value, flags: 1, kills_sgid };

    let bytes = message(opcode::SETXATTR, &[short.as_bytes(), name, value]);
    assert_eq!(op(&bytes, &Session::default()), told(false));
    let session = Session { flags: InitFlags::SETXATTR_EXT, ..Session::default() };
    let bytes = message(opcode::SETXATTR, &[long.as_bytes(), name, value]);
    assert_eq!(op(&bytes, &session), told(true));
}

#[test]
fn the_group_of_the_directory_is_found_among_the_extensions() {
    let create = CreateIn { flags: 1, mode: 0o644, umask: 0o22, open_flags: 0 };
    let context = ExtensionHeader { size: 16, kind: 1 };
    let groups = ExtensionHeader { size: 16, kind: 32 };
    let group = [1_u32, 555];
    let mut bytes = message(
        opcode::CREATE,
        &[
            create.as_bytes(),
            b"f\0",
            context.as_bytes(),
            &[0; 8],
            groups.as_bytes(),
            group.as_bytes(),
        ],
    );
    bytes[36..38].copy_from_slice(&4_u16.to_ne_bytes());
    let request = parse(&bytes, &Session::default()).unwrap();
    assert_eq!(request.supplementary_group, Some(555));
    assert!(matches!(request.op, Op::Create { name, mode: 0o644, .. } if name == "f"));

    // More extensions than there is body.
    bytes[36..38].copy_from_slice(&99_u16.to_ne_bytes());
    assert!(matches!(parse(&bytes, &Session::default()), Err(Malformed::Body { .. })));
}

#[test]
fn a_request_that_is_sent_again_has_its_old_id() {
    let mut bytes = message(opcode::INTERRUPT, &[InterruptIn { unique: 40 }.as_bytes()]);
    bytes[8..16].copy_from_slice(&(UNIQUE_RESEND | 40).to_ne_bytes());
    let request = parse(&bytes, &Session::default()).unwrap();
    assert!(request.is_resent);
    assert_eq!(request.unique, 40);
    assert!(!request.op.is_answered());
    assert_eq!(FileKind::of_mode(0o120_777), FileKind::Symlink);
}
