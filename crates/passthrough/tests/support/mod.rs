//! A file system without a mount: requests as the kernel sends them, and what the replies say.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tempfile::TempDir;
use weir_fuse_proto::flags::{ReleaseFlags, WriteFlags};
use weir_fuse_proto::{Op, ROOT, Request};
use weir_passthrough::{Options, PassThrough, Worker};

pub(crate) const OUT_HEADER: usize = 16;
const ENTRY: usize = 128;

/// A source directory, its file system, and a thread that answers.
pub(crate) struct Fs {
    pub(crate) source: TempDir,
    pub(crate) fs: PassThrough,
    worker: Worker,
    caller: (u32, u32),
}

/// A node as a reply tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) node: u64,
    pub(crate) mode: u32,
    pub(crate) nlink: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) size: u64,
}

/// The same test, by file handles and by names.
pub(crate) fn both_ways(test: impl Fn(Fs)) {
    for by_name in [false, true] {
        test(Fs::new(by_name));
    }
}

impl Fs {
    pub(crate) fn new(by_name: bool) -> Fs {
        let source = tempfile::tempdir().unwrap();
        let options = Options { by_name, ..Options::default() };
        let fs = PassThrough::open(source.path(), options).unwrap();
        let caller = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Fs { source, fs, worker: Worker::new().unwrap(), caller }
    }

    /// From now on requests are of another user.
    pub(crate) fn become_user(&mut self, uid: u32, gid: u32) {
        self.caller = (uid, gid);
    }

    /// The body of the reply, or the error's number.
    pub(crate) fn ask(&mut self, node: u64, op: Op<'_>) -> Result<Vec<u8>, i32> {
        let (uid, gid) = self.caller;
        let request = Request {
            unique: 2,
            node,
            uid,
            gid,
            pid: 1,
            supplementary_group: None,
            is_resent: false,
            op,
        };
        let Some(reply) = self.fs.answer(&request, &mut self.worker) else { return Ok(Vec::new()) };
        let number = |at: usize| i32::from_ne_bytes(reply[at..at + 4].try_into().unwrap());
        assert_eq!(number(0) as usize, reply.len());
        match number(4) {
            0 => Ok(reply[OUT_HEADER..].to_vec()),
            error => Err(-error),
        }
    }

    pub(crate) fn look_up(&mut self, parent: u64, name: &str) -> Result<Seen, i32> {
        self.ask(parent, Op::Lookup { name: OsStr::new(name) }).map(|body| entry(&body))
    }

    /// A new file: its node and handle.
    pub(crate) fn create(&mut self, parent: u64, name: &str, mode: u32, umask: u32) -> (Seen, u64) {
        let name = OsStr::new(name);
        // O_RDWR
        let op = Op::Create { name, flags: 2, mode: 0o100_000 | mode, umask, kills_suidgid: false };
        let body = self.ask(parent, op).unwrap();
        let handle = u64::from_ne_bytes(body[ENTRY..ENTRY + 8].try_into().unwrap());
        (entry(&body), handle)
    }

    pub(crate) fn write(
        &mut self,
        node: u64,
        handle: u64,
        offset: u64,
        data: &[u8],
    ) -> Result<u32, i32> {
        let op = Op::Write { handle, offset, data, flags: 2, write_flags: WriteFlags::empty() };
        let body = self.ask(node, op)?;
        Ok(u32::from_ne_bytes(body[..4].try_into().unwrap()))
    }

    pub(crate) fn read(
        &mut self,
        node: u64,
        handle: u64,
        offset: u64,
        size: u32,
    ) -> Result<Vec<u8>, i32> {
        self.ask(node, Op::Read { handle, offset, size, flags: 0 })
    }

    pub(crate) fn attributes(&mut self, node: u64) -> Result<Seen, i32> {
        let body = self.ask(node, Op::Getattr { handle: None })?;
        Ok(seen(node, &body[16..]))
    }

    pub(crate) fn open(&mut self, node: u64, op: Op<'_>) -> Result<u64, i32> {
        let body = self.ask(node, op)?;
        Ok(u64::from_ne_bytes(body[..8].try_into().unwrap()))
    }

    pub(crate) fn release(&mut self, node: u64, handle: u64) {
        let release_flags = ReleaseFlags::empty();
        self.ask(node, Op::Release { handle, flags: 0, release_flags, lock_owner: 0 }).unwrap();
    }

    pub(crate) fn forget(&mut self, node: u64, lookups: u64) {
        self.ask(node, Op::Forget { lookups }).unwrap();
    }

    /// All entries of a directory, in replies of `size` bytes: name and node, 0 where it came without attributes.
    pub(crate) fn list(&mut self, node: u64, size: u32, plus: bool) -> Vec<(OsString, u64)> {
        let handle = self.open(node, Op::Opendir { flags: 0 }).unwrap();
        let (mut found, mut offset) = (Vec::new(), 0);
        loop {
            let body = self.ask(node, Op::Readdir { handle, offset, size, plus }).unwrap();
            if body.is_empty() {
                break;
            }
            let mut rest = &body[..];
            while !rest.is_empty() {
                let head = if plus { ENTRY } else { 0 };
                let number = |at: usize| u64::from_ne_bytes(rest[at..at + 8].try_into().unwrap());
                let len =
                    u32::from_ne_bytes(rest[head + 16..head + 20].try_into().unwrap()) as usize;
                offset = number(head + 8);
                let node = if plus { number(0) } else { 0 };
                found.push((OsStr::from_bytes(&rest[head + 24..][..len]).to_owned(), node));
                rest = &rest[(head + 24 + len).next_multiple_of(8)..];
            }
        }
        self.ask(node, Op::Releasedir { handle }).unwrap();
        found
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        Path::join(self.source.path(), name)
    }
}

fn entry(body: &[u8]) -> Seen {
    seen(u64::from_ne_bytes(body[..8].try_into().unwrap()), &body[40..])
}

fn seen(node: u64, attr: &[u8]) -> Seen {
    let number = |at: usize| u32::from_ne_bytes(attr[at..at + 4].try_into().unwrap());
    let size = u64::from_ne_bytes(attr[8..16].try_into().unwrap());
    Seen { node, mode: number(60), nlink: number(64), owner: (number(68), number(72)), size }
}

/// The node of the root.
pub(crate) const TOP: u64 = ROOT;
