//! A page cache in front of a disk of fixed rate, in virtual time, with a log of what reached the disk.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use weir_disk::{DiskModel, DiskOp, Null, NullSpec};
use weir_pagecache::{CacheIo, CacheOp, PageCache, Settings, Token};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1000 * MS;

/// A request on its way to the disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) at_ns: u64,
    pub(crate) io: CacheIo,
}

pub(crate) struct Machine {
    pub(crate) cache: PageCache,
    pub(crate) now_ns: u64,
    pub(crate) log: Vec<Entry>,
    disk: Null,
    ended: BTreeMap<u64, u64>,
    tokens: u64,
}

impl Machine {
    /// With a disk of so many bytes a second.
    pub(crate) fn new(settings: Settings, rate: u64) -> Machine {
        let spec = NullSpec { rate: NonZeroU64::new(rate), latency_ns: 0, size: u64::MAX };
        Machine {
            cache: PageCache::new(settings),
            now_ns: 0,
            log: Vec::new(),
            disk: Null::new(spec),
            ended: BTreeMap::new(),
            tokens: 0,
        }
    }

    fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    pub(crate) fn write(
        &mut self,
        owner: u32,
        file: u32,
        offset: u64,
        len: u32,
        sync: bool,
    ) -> Token {
        let token = self.token();
        self.cache.write(self.now_ns, token, owner, file, offset, len, sync);
        self.pump();
        token
    }

    pub(crate) fn sync(&mut self, owner: u32, file: u32) -> Token {
        let token = self.token();
        self.cache.sync(self.now_ns, token, owner, file);
        self.pump();
        token
    }

    pub(crate) fn read_and_wait(&mut self, file: u32, offset: u64, len: u32) {
        let token = self.token();
        self.cache.read(self.now_ns, token, 0, file, offset, len);
        self.pump();
        self.drain_until_done(token);
    }

    pub(crate) fn write_and_wait(&mut self, owner: u32, file: u32, offset: u64, len: u32) {
        let token = self.write(owner, file, offset, len, false);
        self.drain_until_done(token);
    }

    pub(crate) fn sync_and_wait(&mut self, owner: u32, file: u32) {
        let token = self.sync(owner, file);
        self.drain_until_done(token);
    }

    pub(crate) fn has_ended(&self, token: Token) -> bool {
        self.ended.contains_key(&token.0)
    }

    pub(crate) fn ended_ns(&self, token: Token) -> u64 {
        self.ended[&token.0]
    }

    /// When something happens next.
    fn next_ns(&self) -> Option<u64> {
        let timer_ns = self.cache.poll_timeout();
        self.disk.next_event().into_iter().chain(timer_ns).min()
    }

    /// Goes to what happens next.
    pub(crate) fn step(&mut self) {
        let at_ns = self.next_ns().expect("something happens");
        self.go_to(at_ns);
    }

    pub(crate) fn go_to(&mut self, until_ns: u64) {
        while let Some(at_ns) = self.next_ns().filter(|&at_ns| at_ns <= until_ns) {
            assert!(at_ns >= self.now_ns, "an event at {at_ns}, now is {}", self.now_ns);
            self.now_ns = at_ns;
            while let Some(io) = self.disk.poll_complete(at_ns) {
                self.cache.completed(at_ns, io);
                self.pump();
            }
            if self.cache.poll_timeout().is_some_and(|timer_ns| timer_ns <= at_ns) {
                self.cache.handle_timeout(at_ns);
                self.pump();
            }
        }
        self.now_ns = self.now_ns.max(until_ns);
    }

    pub(crate) fn drain_until_done(&mut self, token: Token) {
        while !self.has_ended(token) {
            self.step();
        }
    }

    /// Until nothing happens any more.
    pub(crate) fn drain(&mut self) {
        while self.next_ns().is_some() {
            self.step();
        }
    }

    fn pump(&mut self) {
        while let Some(io) = self.cache.poll_io() {
            let op = match io.op {
                CacheOp::Read => DiskOp::Read,
                CacheOp::Write => DiskOp::Write,
                CacheOp::Flush => DiskOp::Flush,
            };
            self.disk.submit(self.now_ns, io.id, op, io.offset, io.len);
            self.log.push(Entry { at_ns: self.now_ns, io });
        }
        while let Some(token) = self.cache.poll_done() {
            let before = self.ended.insert(token.0, self.now_ns);
            assert_eq!(before, None, "{token:?} ended twice");
        }
        // Looking at everything at every step would take most of the time of the long tests.
        if self.log.len() % 64 < 8 {
            self.cache.check().unwrap();
        }
    }

    /// Requests that reached the disk: time in ms, operation and file, first byte and length in KiB, owner.
    pub(crate) fn timeline(&self) -> String {
        let lines = self.log.iter().map(|Entry { at_ns, io }| {
            let (ms, us) = (at_ns / MS, at_ns / 1000 % 1000);
            let extent = format!("{}+{}K", io.offset / KIB, u64::from(io.len) / KIB);
            let (file, owner) = (io.file, io.owner);
            let waited = if io.sync { " waited" } else { "" };
            match io.op {
                CacheOp::Read if io.sync => format!("{ms}.{us:03} r{file} {extent} waited\n"),
                CacheOp::Read => format!("{ms}.{us:03} r{file} {extent} ahead\n"),
                CacheOp::Write => format!("{ms}.{us:03} w{file} {extent} by {owner}{waited}\n"),
                CacheOp::Flush => format!("{ms}.{us:03} f{file} by {owner}{waited}\n"),
            }
        });
        lines.collect()
    }
}
