//! Checks that hold for any bytes; the fuzz target runs the same.

#![allow(unreachable_pub, reason = "also a module of the fuzz targets")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use weir_fuse_proto::flags::InitFlags;
use weir_fuse_proto::init::{Negotiation, Wishes, negotiate};
use weir_fuse_proto::wire::{IN_HEADER_LEN, READ_BUFFER_MIN};
use weir_fuse_proto::{Malformed, NAME_MAX, Op, Session, parse};

/// A message as it is, and then with the length that it has and a likely type, so that bodies are reached. The names of what was
/// found.
pub fn message(data: &[u8]) -> Vec<String> {
    let Some((&first, data)) = data.split_first() else { return Vec::new() };
    let flags = if first & 1 == 0 { InitFlags::empty() } else { InitFlags::SETXATTR_EXT };
    let session = Session { minor: 45, flags, write_bytes_max: 1 << 20 };
    let mut found = vec![check(data, &session)];
    if data.len() >= IN_HEADER_LEN {
        let mut data = data.to_vec();
        let len = data.len() as u32;
        data[..4].copy_from_slice(&len.to_ne_bytes());
        let kind = u32::from(data[4] % 56);
        data[4..8].copy_from_slice(&kind.to_ne_bytes());
        if first & 2 == 0 {
            data[36..38].fill(0);
        }
        found.push(check(&data, &session));
    }
    found
}

fn check(data: &[u8], session: &Session) -> String {
    let request = match parse(data, session) {
        Ok(request) => request,
        Err(Malformed::Header { len }) => {
            assert!(len == data.len() && len < IN_HEADER_LEN);
            return "Header".into();
        }
        Err(Malformed::Length { .. }) => return "Length".into(),
        Err(Malformed::Body { len, .. }) => {
            assert_eq!(len, data.len() - IN_HEADER_LEN);
            return "Body".into();
        }
    };
    assert_eq!(request.unique >> 63, 0);
    match request.op {
        Op::Lookup { name }
        | Op::Mknod { name, .. }
        | Op::Mkdir { name, .. }
        | Op::Unlink { name }
        | Op::Rmdir { name }
        | Op::Link { name, .. }
        | Op::Create { name, .. } => check_name(name),
        Op::Symlink { name, target } => {
            check_name(name);
            check_string(target);
        }
        Op::Rename { name, new_name, .. } => {
            check_name(name);
            check_name(new_name);
        }
        Op::Getxattr { name, .. } | Op::Removexattr { name } => check_string(name),
        Op::Setxattr { name, value, .. } => {
            check_string(name);
            assert!(value.len() < data.len());
        }
        Op::Write { data: written, .. } => assert!(written.len() < data.len()),
        Op::BatchForget(forgets) => assert!(forgets.count() * 16 < data.len()),
        op @ Op::Init { .. } => {
            let wishes = Wishes { flags: InitFlags::all(), ..Wishes::default() };
            if let Ok(Negotiation::Done { session, .. }) = negotiate(1, &op, &wishes) {
                assert!(session.buffer_len() >= READ_BUFFER_MIN);
            }
        }
        _ => {}
    }
    let text = format!("{:?}", request.op);
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}

fn check_name(name: &OsStr) {
    check_string(name);
    assert!(!name.is_empty() && !name.as_bytes().contains(&b'/'));
}

fn check_string(string: &OsStr) {
    assert!(string.len() <= NAME_MAX && !string.as_bytes().contains(&0));
}
