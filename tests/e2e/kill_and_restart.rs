//! Our own client: the server is killed during writes, and started again. Flushed bytes are there.

use std::collections::BTreeMap;
use std::io;

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Random, Server, pattern};

const BLOCK: usize = 4096;
const BLOCKS: usize = 256;
const IN_FLIGHT: usize = 24;

/// State of one block at the client. Versions count from 1; version 0 is the zeroes at the beginning.
#[derive(Clone, Copy, Default)]
struct Block {
    /// Sent last.
    sent: u64,
    /// Answered last.
    answered: u64,
    /// Answered before the flush was sent that has been answered, or answered itself as durable.
    durable: u64,
    in_flight: bool,
}

/// A client's log, kept through the death of the server.
struct Log {
    blocks: Vec<Block>,
    /// Flushes in flight, each with the writes answered before it was sent.
    flushes: BTreeMap<u64, Vec<u64>>,
    /// Of writes under way: the block, and whether it is to be durable.
    writes: BTreeMap<u64, (usize, bool)>,
}

fn content(block: usize, version: u64) -> Vec<u8> {
    match version {
        0 => vec![0; BLOCK],
        _ => pattern(block as u64 * 1_000_000 + version, BLOCK),
    }
}

impl Log {
    fn send(&mut self, client: &mut Client, random: &mut Random) -> io::Result<()> {
        if random.below(40) == 0 {
            let answered = self.blocks.iter().map(|block| block.answered).collect();
            let cookie = client.send(Kind::Flush, 0, 0, 0, &[])?;
            self.flushes.insert(cookie, answered);
            return Ok(());
        }
        let free = |number: &usize| !self.blocks[*number].in_flight;
        let number =
            (0..).map(|_| random.below(BLOCKS as u64) as usize).find(free).expect("endless");
        let is_durable = random.below(10) == 0;
        let block = &mut self.blocks[number];
        // On record before it is sent: the server may get it and die before this client knows.
        block.sent += 1;
        block.in_flight = true;
        let flags = if is_durable { nbd::FUA } else { 0 };
        let bytes = content(number, block.sent);
        let offset = (number * BLOCK) as u64;
        let cookie = client.send(Kind::Write, flags, offset, BLOCK as u32, &bytes)?;
        self.writes.insert(cookie, (number, is_durable));
        Ok(())
    }

    fn receive(&mut self, client: &mut Client) -> io::Result<()> {
        let reply = client.receive()?;
        assert_eq!(reply.error, 0);
        if let Some(answered) = self.flushes.remove(&reply.cookie) {
            for (block, answered) in self.blocks.iter_mut().zip(answered) {
                block.durable = block.durable.max(answered);
            }
            return Ok(());
        }
        let (number, is_durable) = self.writes.remove(&reply.cookie).expect("it was asked");
        let block = &mut self.blocks[number];
        block.answered = block.sent;
        block.in_flight = false;
        if is_durable {
            block.durable = block.sent;
        }
        Ok(())
    }

    /// Every block holds one version, whole, between the last durable one and the last one sent; that is where the
    /// next life goes on.
    fn verify(&mut self, client: &mut Client) {
        for (number, block) in self.blocks.iter_mut().enumerate() {
            let found = client.read((number * BLOCK) as u64, BLOCK as u32).expect("it can be read");
            let held = (block.durable..=block.sent).rev().find(|v| found == content(number, *v));
            let Some(held) = held else {
                let older = (0..block.durable).rev().find(|v| found == content(number, *v));
                let Block { sent, answered, durable, .. } = *block;
                panic!(
                    "block {number}: sent {sent}, answered {answered}, durable {durable}, found {older:?}"
                );
            };
            // Later versions than the found one are lost for good.
            *block = Block { sent: held, answered: held, durable: held, in_flight: false };
        }
        self.flushes.clear();
        self.writes.clear();
    }
}

/// Several lives of one image, each ended by SIGKILL after another number of answers.
fn survives(flags: &[&str]) {
    let place = Place::new();
    let image = place.hole("disk.img", (BLOCK * BLOCKS) as u64);
    let blocks = vec![Block::default(); BLOCKS];
    let mut log = Log { blocks, flushes: BTreeMap::new(), writes: BTreeMap::new() };
    let mut random = Random::new(61);
    for answers in [1, 50, 200, 333, 1000, 77] {
        let server = Server::image(&place, &image, flags);
        let mut client = Client::of(&server);
        log.verify(&mut client);
        for _ in 0..IN_FLIGHT {
            log.send(&mut client, &mut random).expect("it is taken");
        }
        for _ in 0..answers {
            log.receive(&mut client).expect("it is answered");
            log.send(&mut client, &mut random).expect("it is taken");
        }
        server.kill();
        // Answers that were on their way count: the client has them.
        while log.receive(&mut client).is_ok() {}
    }
    let server = Server::image(&place, &image, flags);
    log.verify(&mut Client::of(&server));
    server.stop();
    let durable = log.blocks.iter().filter(|block| block.durable > 0).count();
    assert!(durable > BLOCKS / 2, "only {durable} blocks were ever durable");
}

#[test]
fn kill_9_keeps_flushed_bytes_with_the_page_cache() {
    survives(&["--direct", "off"]);
}

#[test]
fn kill_9_keeps_flushed_bytes_with_direct_io() {
    if Place::new().direct_modes().contains(&"on") {
        survives(&["--direct", "on"]);
    }
}

#[test]
fn kill_9_keeps_flushed_bytes_under_a_limit() {
    survives(&["--max", "wiops=4k", "--burst", "16"]);
}

#[test]
fn kill_9_keeps_flushed_bytes_with_a_write_back_cache() {
    survives(&["--cache", "writeback"]);
}

/// Small, and slower than the client: writes wait for room.
#[test]
fn kill_9_keeps_flushed_bytes_with_a_full_write_back_cache() {
    survives(&["--cache", "writeback", "--cache-size", "1M", "--max", "wbps=8M"]);
}
