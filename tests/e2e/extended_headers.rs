//! Extended headers, spoken byte by byte: requests of more than 4 GiB, 64-bit extents, and block status of some contexts.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use weir_tests::nbd::{self, CLIENT_FLAGS, Client, EINVAL, FUA, Kind, option};
use weir_tests::{Place, Server, eventually};

const GIB: u64 = 1 << 30;
const SIZE: u64 = 20 * GIB;
/// A multiple of every file system's block.
const BLOCK: u64 = 64 << 10;
const REQUEST_MAGIC: u32 = 0x21e4_1c71;
const REPLY_MAGIC: u32 = 0x6e8a_278c;
const OPT_STRUCTURED_REPLY: u32 = 8;
const OPT_SET_META_CONTEXT: u32 = 10;
const OPT_EXTENDED_HEADERS: u32 = 11;
const REP_ACK: u32 = 1;
const REP_ERR_EXT_HEADER_REQD: u32 = 1 << 31 | 10;
const CMD_BLOCK_STATUS: u16 = 7;
const FLAG_DF: u16 = 1 << 2;
const FLAG_PAYLOAD_LEN: u16 = 1 << 5;
const TYPE_NONE: u16 = 0;
const TYPE_DATA: u16 = 1;
const TYPE_HOLE: u16 = 2;
const TYPE_STATUS: u16 = 6;
const TYPE_ERROR: u16 = 1 << 15 | 1;

/// A connection with extended headers and both contexts.
struct Extended(UnixStream);

/// Type, flags and body of a chunk.
type Chunk = (u16, u16, Vec<u8>);

impl Extended {
    fn open(server: &Server) -> Extended {
        let mut this = Extended(nbd::dial(server.socket()));
        let greeting: [u8; 18] = this.bytes();
        assert_eq!(greeting[16..], [0, 3]);
        this.send(&CLIENT_FLAGS.to_be_bytes());
        this.send(&option(OPT_EXTENDED_HEADERS, &[]));
        assert_eq!(this.option_reply().0, REP_ACK);
        this.send(&option(OPT_STRUCTURED_REPLY, &[]));
        assert_eq!(this.option_reply().0, REP_ERR_EXT_HEADER_REQD);
        let mut contexts = [&[0; 4][..], &2_u32.to_be_bytes()].concat();
        for name in ["base:allocation", "qemu:allocation-depth"] {
            contexts.extend((name.len() as u32).to_be_bytes());
            contexts.extend(name.as_bytes());
        }
        this.send(&option(OPT_SET_META_CONTEXT, &contexts));
        for (id, name) in [(1, "base:allocation"), (2, "qemu:allocation-depth")] {
            assert_eq!(this.option_reply(), (4, [&[0, 0, 0, id], name.as_bytes()].concat()));
        }
        assert_eq!(this.option_reply().0, REP_ACK);
        this.send(&nbd::go(""));
        while this.option_reply().0 != REP_ACK {}
        this
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the server reads");
    }

    fn bytes<const LEN: usize>(&mut self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        self.0.read_exact(&mut bytes).expect("the server answers");
        bytes
    }

    fn option_reply(&mut self) -> (u32, Vec<u8>) {
        let head: [u8; 20] = self.bytes();
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
        let mut data = vec![0; word(16) as usize];
        self.0.read_exact(&mut data).expect("the server answers");
        (word(12), data)
    }

    fn request(&mut self, kind: u16, flags: u16, offset: u64, len: u64, payload: &[u8]) {
        let head = [&REQUEST_MAGIC.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()];
        let numbers = [77, offset, len].map(u64::to_be_bytes).concat();
        self.send(&[&head.concat()[..], &numbers, payload].concat());
    }

    /// All chunks of the reply to the request at `offset`.
    fn reply(&mut self, offset: u64) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        loop {
            let head: [u8; 32] = self.bytes();
            assert_eq!(head[..4], REPLY_MAGIC.to_be_bytes());
            assert_eq!(head[8..24], [77, offset].map(u64::to_be_bytes).concat());
            let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
            let len = u64::from_be_bytes(head[24..].try_into().expect("eight"));
            let mut body = vec![0; len as usize];
            self.0.read_exact(&mut body).expect("the server answers");
            chunks.push((short(6), short(4), body));
            if short(4) & 1 != 0 {
                return chunks;
            }
        }
    }

    /// Carries out a request that is answered with success alone.
    fn call(&mut self, kind: Kind, flags: u16, offset: u64, len: u64, payload: &[u8]) {
        self.request(kind as u16, flags, offset, len, payload);
        assert_eq!(self.reply(offset), [(TYPE_NONE, 1, vec![])]);
    }

    fn read(&mut self, offset: u64, len: u64) -> Vec<u8> {
        self.request(Kind::Read as u16, 0, offset, len, &[]);
        let [(TYPE_DATA, 1, body)] = &self.reply(offset)[..] else { panic!("no data") };
        assert_eq!(body[..8], offset.to_be_bytes());
        body[8..].to_vec()
    }

    /// Extents of `contexts`, of all that were negotiated where none is told.
    fn status(&mut self, offset: u64, len: u64, contexts: &[u32]) -> Vec<(u32, Vec<[u64; 2]>)> {
        if contexts.is_empty() {
            self.request(CMD_BLOCK_STATUS, 0, offset, len, &[]);
        } else {
            let mut payload = len.to_be_bytes().to_vec();
            payload.extend(contexts.iter().flat_map(|id| id.to_be_bytes()));
            let len = payload.len() as u64;
            self.request(CMD_BLOCK_STATUS, FLAG_PAYLOAD_LEN, offset, len, &payload);
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0, |all, &byte| all << 8 | u64::from(byte));
        let status = |(kind, _, body): Chunk| {
            assert_eq!(kind, TYPE_STATUS);
            let pairs: Vec<_> =
                body[8..].chunks(16).map(|pair| [number(&pair[..8]), number(&pair[8..])]).collect();
            assert_eq!(number(&body[4..8]), pairs.len() as u64);
            (number(&body[..4]) as u32, pairs)
        };
        self.reply(offset).into_iter().map(status).collect()
    }
}

#[test]
fn zeroes_and_trims_of_many_gibibytes_change_exactly_their_range() {
    let place = Place::new();
    let image = place.sparse("disk.img", SIZE, &[]);
    let image = image.to_str().expect("a plain name");
    for (device, flags) in [
        (image, &[][..]),
        (image, &["--cache", "writeback"]),
        ("memory:20G", &["--scheduler", "bfq"]),
    ] {
        let server = Server::image(&place, device, flags);
        let mut client = Extended::open(&server);
        for kind in [Kind::WriteZeroes, Kind::Trim] {
            let (start, len) = (3 * GIB + 512, 11 * GIB + 4096);
            let edges = [start - 512, start, start + 5 * GIB, start + len - 512, start + len];
            for at in edges {
                client.call(Kind::Write, FLAG_PAYLOAD_LEN, at, 512, &[7; 512]);
            }
            client.call(kind, FUA, start, len, &[]);
            let [before, first, amid, last, after] = edges.map(|at| client.read(at, 512)[511]);
            assert_eq!((before, after), (7, 7), "{kind:?} {device} {flags:?}");
            if kind == Kind::WriteZeroes {
                assert_eq!((first, amid, last), (0, 0, 0), "{device} {flags:?}");
            }
        }
        if device != image {
            // Of a file it would fill the page cache.
            client.call(Kind::Cache, 0, GIB, 16 * GIB, &[]);
        }
        drop(client);
        assert!(server.status().is_idle() && server.status().balances());
        server.stop();
    }
}

#[test]
fn block_status_tells_64_bit_extents_of_the_contexts_asked_for() {
    let place = Place::new();
    let image = place.sparse("disk.img", SIZE, &[(9 * GIB, &[1; BLOCK as usize])]);
    let server = Server::image(&place, image, &[]);
    let mut client = Extended::open(&server);
    let allocation = (1, vec![[9 * GIB, 3], [BLOCK, 0], [11 * GIB - BLOCK, 3]]);
    let depth = (2, vec![[9 * GIB, 0], [BLOCK, 1], [11 * GIB - BLOCK, 0]]);
    let both = vec![allocation.clone(), depth.clone()];
    assert_eq!(client.status(0, SIZE, &[]), both);
    assert_eq!(client.status(0, SIZE, &[2, 1]), both);
    assert_eq!(client.status(0, SIZE, &[1]), [allocation]);
    assert_eq!(client.status(0, SIZE, &[2]), [depth]);
    assert_eq!(client.status(8 * GIB, GIB, &[2]), [(2, vec![[GIB, 0]])]);
    // A payload that makes no sense is read and refused, and the connection goes on.
    for contexts in [&[3][..], &[1, 1], &[1, 2, 1]] {
        let mut payload = SIZE.to_be_bytes().to_vec();
        payload.extend(contexts.iter().flat_map(|id: &u32| id.to_be_bytes()));
        let len = payload.len() as u64;
        client.request(CMD_BLOCK_STATUS, FLAG_PAYLOAD_LEN, 512, len, &payload);
        let [(TYPE_ERROR, 1, body)] = &client.reply(512)[..] else { panic!("no refusal") };
        assert_eq!(body[..4], EINVAL.to_be_bytes());
    }
    client.request(Kind::Read as u16, FLAG_PAYLOAD_LEN, 0, 100_000, &[0; 100_000]);
    let [(TYPE_ERROR, 1, _)] = &client.reply(0)[..] else { panic!("no refusal") };
    assert_eq!(client.read(9 * GIB, 1), [1]);
    drop(client);
    server.stop();
}

/// A limit lets each part of a long request through by itself, and a client that leaves amid one takes the rest with it.
#[test]
fn a_client_that_leaves_amid_a_very_long_request_leaves_nothing_behind() {
    for flags in [&[][..], &["--cache", "writeback"]] {
        let place = Place::new();
        let server = Server::image(&place, "emulated:hdd7200,size=64G", flags);
        let mut long = Extended::open(&server);
        long.request(Kind::WriteZeroes as u16, FUA, GIB, 60 * GIB, &[]);
        eventually("it is at the device", || server.status().number("in_flight") == 1);
        let mut other = Client::of(&server);
        other.read(0, 4096).expect("a read is not held up by it");
        assert_eq!(server.status().number("in_flight"), 1, "the long one is still under way");
        drop(long);
        eventually("nothing is under way", || server.status().is_idle());
        assert!(server.status().balances());
        drop(other);
        server.stop();
    }
}

/// The request that closes a connection has the long form, too.
#[test]
fn what_was_asked_before_an_extended_disconnect_is_carried_out() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &["--max", "wiops=20"]);
    let mut client = Extended::open(&server);
    for at in 0..20 {
        client.request(Kind::Write as u16, FLAG_PAYLOAD_LEN, at * 512, 512, &[9; 512]);
    }
    client.request(Kind::Disconnect as u16, 0, 0, 0, &[]);
    drop(client);
    let read_all = || Client::of(&server).read(0, 20 * 512);
    eventually("all is written", || read_all().is_ok_and(|bytes| bytes == vec![9; 20 * 512]));
    server.stop();
}

/// Zeroes are told, not sent, where the format has a way to.
#[test]
fn a_read_of_data_and_holes_has_a_chunk_for_each() {
    let place = Place::new();
    let data = [7; BLOCK as usize];
    let image = place.sparse("disk.img", SIZE, &[(2 * BLOCK, &data), (9 * GIB, &data)]);
    for flags in [&[][..], &["--cache", "writeback"]] {
        let server = Server::image(&place, image.clone(), flags);
        let mut client = Extended::open(&server);
        let hole = |at: u64, len: u64| {
            (TYPE_HOLE, [&at.to_be_bytes()[..], &(len as u32).to_be_bytes()].concat())
        };
        let bytes = |at: u64, bytes: &[u8]| (TYPE_DATA, [&at.to_be_bytes()[..], bytes].concat());
        for (offset, len, flag, expected) in [
            (
                0,
                5 * BLOCK,
                0,
                vec![hole(0, 2 * BLOCK), bytes(2 * BLOCK, &data), hole(3 * BLOCK, 2 * BLOCK)],
            ),
            (BLOCK, 2 * BLOCK, 0, vec![hole(BLOCK, BLOCK), bytes(2 * BLOCK, &data)]),
            (4 * BLOCK, 3 * BLOCK, FLAG_DF, vec![hole(4 * BLOCK, 3 * BLOCK)]),
            (BLOCK, 2 * BLOCK, FLAG_DF, vec![bytes(BLOCK, &[[0; BLOCK as usize], data].concat())]),
            (0, BLOCK - 512, 0, vec![bytes(0, &[0; BLOCK as usize - 512])]),
        ] {
            client.request(Kind::Read as u16, flag, offset, len, &[]);
            let chunks = client.reply(offset);
            let last = chunks.len() - 1;
            let told: Vec<_> = chunks
                .into_iter()
                .enumerate()
                .map(|(at, (kind, flags, body))| {
                    assert_eq!(flags, u16::from(at == last));
                    (kind, body)
                })
                .collect();
            assert!(told == expected, "{len} bytes at {offset}, flag {flag}: other chunks");
        }
        // A client of simple replies is sent all.
        assert_eq!(
            Client::of(&server).read(0, 2 * BLOCK as u32).expect("a read"),
            vec![0; 2 * BLOCK as usize]
        );
        drop(client);
        server.stop();
    }
}
