//! Format of a table: bytes, version 1.
//!
//! ```text
//!  "weirpool" 1                                  magic, version
//!  flags u8 (1: learning)  epoch u64 le  generation n
//!  servers n × { name, incarnation u64 le, age n, lease_ms n, presence u8 }
//!  pools n × { name, rows n × { server n, dimensions u8, weight n, dimensions × { granted n, granted - reserved n, demand + 1 n } } }
//! ```
//!
//! `n` is a LEB128 number in its shortest form, a name its length in one byte and as many bytes of UTF-8. `age` is the
//! generation less the one that the server wrote. Servers, pools and rows are in ascending order and named once. So each
//! table has one form only, and bytes that parse are what would be written.

use weir_engine::Dimension;

use crate::rates::Rates;
use crate::table::{Epoch, PoolRows, Presence, Row, Server, Table};

const MAGIC: &[u8; 8] = b"weirpool";
const VERSION: u8 = 1;
const LEARNING: u8 = 1;
/// So that there is always a next one.
const GENERATION_MAX: u64 = u64::MAX / 2;

/// Most bytes of a table. Stores have a maximum of their own, which is mostly lower: 1 MiB by default at NATS.
pub const TABLE_BYTES_MAX: usize = 16 << 20;
/// Longest name of a server or pool, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Most servers of a table. Each of them parses all of it at each refresh.
pub const SERVERS_MAX: usize = 4096;

/// Why bytes are no table.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// It is something else.
    #[error("it does not begin as a table of pools does")]
    NotATable,
    /// Another version of Weir wrote it.
    #[error(
        "it has version {found}, this is for version {VERSION}: use the same release on all servers"
    )]
    Version {
        /// The version.
        found: u8,
    },
    /// It is longer than tables are.
    #[error("it has {bytes} bytes, at most {TABLE_BYTES_MAX} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A part of it cannot be.
    #[error("at byte {at}: {what}")]
    Malformed {
        /// Where.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
}

/// Writes a table.
pub(crate) fn write(table: &Table) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + 40 * table.servers.len());
    out.extend_from_slice(MAGIC);
    out.push(VERSION);
    out.push(if table.is_learning { LEARNING } else { 0 });
    out.extend_from_slice(&table.epoch.0.to_le_bytes());
    push_number(&mut out, table.generation);
    push_number(&mut out, table.servers.len() as u64);
    for server in &table.servers {
        push_name(&mut out, &server.name);
        out.extend_from_slice(&server.incarnation.to_le_bytes());
        push_number(&mut out, table.generation - server.seq);
        push_number(&mut out, server.lease_ms.into());
        out.push(match server.presence {
            Presence::Live => 0,
            Presence::Lost => 1,
            Presence::Remembered => 2,
        });
    }
    push_number(&mut out, table.pools.len() as u64);
    for pool in &table.pools {
        push_name(&mut out, &pool.name);
        push_number(&mut out, pool.rows.len() as u64);
        for row in &pool.rows {
            push_number(&mut out, row.server.into());
            out.push(row.dimensions().fold(0, |mask, dimension| mask | 1 << dimension as u8));
            push_number(&mut out, row.weight);
            for dimension in row.dimensions() {
                let granted = row.granted[dimension];
                push_number(&mut out, granted);
                push_number(&mut out, granted - row.reserved[dimension]);
                push_number(&mut out, row.demand[dimension].wrapping_add(1));
            }
        }
    }
    out
}

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn push_name(out: &mut Vec<u8>, name: &str) {
    out.push(u8::try_from(name.len()).expect("names are checked"));
    out.extend_from_slice(name.as_bytes());
}

/// Reads a table. O(bytes), in time and memory.
///
/// # Errors
/// [`TableError`] says where it is wrong.
pub(crate) fn parse(bytes: &[u8]) -> Result<Table, TableError> {
    if bytes.len() > TABLE_BYTES_MAX {
        return Err(TableError::TooLong { bytes: bytes.len() });
    }
    let rest = bytes.strip_prefix(MAGIC).ok_or(TableError::NotATable)?;
    match rest.first() {
        Some(&VERSION) => {}
        Some(&found) => return Err(TableError::Version { found }),
        None => return Err(TableError::NotATable),
    }
    let mut reader = Reader { bytes, at: MAGIC.len() + 1 };
    let flags = reader.byte()?;
    if flags > LEARNING {
        return Err(reader.wrong("unknown flags"));
    }
    let (epoch, generation) = (Epoch(reader.fixed()?), reader.number()?);
    if generation > GENERATION_MAX {
        return Err(reader.wrong("more writes than there can have been"));
    }
    let is_learning = flags == LEARNING;
    let mut table = Table { epoch, generation, is_learning, ..Table::default() };
    for _ in 0..reader.count(SERVERS_MAX)? {
        let server = parse_server(&mut reader, table.generation)?;
        if table.servers.last().is_some_and(|before| before.name >= server.name) {
            return Err(reader.wrong("servers are not in order"));
        }
        table.servers.push(server);
    }
    for _ in 0..reader.count(usize::MAX)? {
        let pool = parse_pool(&mut reader, table.servers.len())?;
        if table.pools.last().is_some_and(|before| before.name >= pool.name) {
            return Err(reader.wrong("pools are not in order"));
        }
        table.pools.push(pool);
    }
    match reader.at == bytes.len() {
        true => Ok(table),
        false => Err(reader.wrong("more follows than there should be")),
    }
}

fn parse_server(reader: &mut Reader<'_>, generation: u64) -> Result<Server, TableError> {
    let name = reader.name()?;
    let incarnation = reader.fixed()?;
    let seq = generation.checked_sub(reader.number()?);
    let seq = seq.ok_or_else(|| reader.wrong("a server is older than the table"))?;
    let lease_ms = u32::try_from(reader.number()?).ok().filter(|&lease_ms| lease_ms > 0);
    let lease_ms = lease_ms.ok_or_else(|| reader.wrong("a lease is of 1 to 4294967295 ms"))?;
    let presence = match reader.byte()? {
        0 => Presence::Live,
        1 => Presence::Lost,
        2 => Presence::Remembered,
        _ => return Err(reader.wrong("a presence is 0 to 2")),
    };
    Ok(Server { name, incarnation, seq, lease_ms, presence })
}

fn parse_pool(reader: &mut Reader<'_>, servers: usize) -> Result<PoolRows, TableError> {
    let name = reader.name()?;
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..reader.count(servers)? {
        let row = parse_row(reader, servers)?;
        if rows.last().is_some_and(|before| before.server >= row.server) {
            return Err(reader.wrong("rows are not in order"));
        }
        rows.push(row);
    }
    match rows.is_empty() {
        true => Err(reader.wrong("a pool has no row")),
        false => Ok(PoolRows { name, rows }),
    }
}

fn parse_row(reader: &mut Reader<'_>, servers: usize) -> Result<Row, TableError> {
    let server = reader.number()?;
    if server >= servers as u64 {
        return Err(reader.wrong("a row is of no server"));
    }
    let mask = reader.byte()?;
    if mask >= 1 << Dimension::COUNT {
        return Err(reader.wrong("unknown dimensions"));
    }
    let weight = reader.number()?;
    if weight == 0 {
        return Err(reader.wrong("a weight is 0"));
    }
    let unlimited = Rates::UNLIMITED;
    let mut row = Row {
        server: server as u32,
        weight,
        granted: unlimited,
        reserved: unlimited,
        demand: unlimited,
    };
    for dimension in Dimension::ALL.into_iter().filter(|&of| mask & 1 << of as u8 != 0) {
        let granted = reader.number()?;
        if granted == Rates::NO_LIMIT {
            return Err(reader.wrong("a rate without a limit is granted"));
        }
        let reserved = granted.checked_sub(reader.number()?);
        row.granted[dimension] = granted;
        row.reserved[dimension] =
            reserved.ok_or_else(|| reader.wrong("less than nothing is reserved"))?;
        row.demand[dimension] = reader.number()?.wrapping_sub(1);
    }
    Ok(row)
}

/// Bytes, read from the front.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn wrong(&self, what: &'static str) -> TableError {
        TableError::Malformed { at: self.at, what }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], TableError> {
        let taken =
            self.bytes[self.at..].get(..count).ok_or_else(|| self.wrong("it ends early"))?;
        self.at += count;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, TableError> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn fixed(&mut self) -> Result<u64, TableError> {
        self.take(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
    }

    fn number(&mut self) -> Result<u64, TableError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return Err(self.wrong("a number is too large or not in its shortest form"));
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.wrong("a number is too large or not in its shortest form"))
    }

    /// A number of items, which take at least a byte each.
    fn count(&mut self, most: usize) -> Result<usize, TableError> {
        let count = self.number()?;
        let most = most.min(self.bytes.len() - self.at);
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= most)
            .ok_or_else(|| self.wrong("it has more items than there can be"))
    }

    fn name(&mut self) -> Result<Box<str>, TableError> {
        let len = self.byte()?;
        let name = str::from_utf8(self.take(len.into())?);
        let name = name.map_err(|_| self.wrong("a name is not UTF-8"))?;
        match name.is_empty() {
            true => Err(self.wrong("a name is empty")),
            false => Ok(name.into()),
        }
    }
}

/// Reads bytes as a table, and checks what holds for all bytes: what can be read is what would be written.
#[doc(hidden)]
pub fn check_any_bytes(bytes: &[u8]) {
    if let Ok(table) = parse(bytes) {
        assert_eq!(write(&table), bytes, "each table has one form");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tables() -> impl Strategy<Value = Table> {
        let presence =
            || prop_oneof![Just(Presence::Live), Just(Presence::Lost), Just(Presence::Remembered)];
        let server = ("[a-z]{1,9}", any::<u64>(), any::<u64>(), 1..u32::MAX, presence());
        let rate = || prop_oneof![0..1000u64, 0..Rates::NO_LIMIT];
        let row = (0..8u32, 1..u64::MAX, 0..64u8, (rate(), rate(), any::<u64>()));
        let pool = ("[a-z]{1,9}", prop::collection::vec(row, 1..8));
        let parts = (any::<u64>().prop_map(Epoch), 0..=GENERATION_MAX, any::<bool>());
        let servers = prop::collection::vec(server, 1..8);
        (parts, servers, prop::collection::vec(pool, 0..8)).prop_map(|(parts, servers, pools)| {
            let (epoch, generation, is_learning) = parts;
            let mut table = Table { epoch, generation, is_learning, ..Table::default() };
            for (name, incarnation, seq, lease_ms, presence) in servers {
                let at = table.ensure_server(&name) as usize;
                let (name, seq) = (name.into(), seq.min(generation));
                table.servers[at] = Server { name, incarnation, seq, lease_ms, presence };
            }
            for (name, rows) in pools {
                for (server, weight, mask, (granted, reserved, demand)) in rows {
                    let server = server % table.servers.len() as u32;
                    let limited = |rate| {
                        Rates::from_fn(|dimension| match mask & 1 << dimension as u8 {
                            0 => Rates::NO_LIMIT,
                            _ => rate,
                        })
                    };
                    let (granted, reserved) = (limited(granted), limited(reserved.min(granted)));
                    let demand = limited(demand);
                    table.set_row(&name, Row { server, weight, granted, reserved, demand });
                }
            }
            table
        })
    }

    proptest! {
        #[test]
        fn a_table_is_read_as_it_was_written(table in tables()) {
            let bytes = write(&table);
            prop_assert_eq!(parse(&bytes), Ok(table));
        }

        #[test]
        fn a_table_that_ends_early_is_refused(table in tables(), cut in any::<prop::sample::Index>()) {
            let bytes = write(&table);
            prop_assert!(parse(&bytes[..cut.index(bytes.len())]).is_err());
        }

        #[test]
        fn a_table_with_a_changed_byte_has_one_form_still(
            table in tables(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut bytes = write(&table);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            check_any_bytes(&bytes);
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = write(&Table::default());
        bytes[8] = 2;
        assert_eq!(parse(&bytes), Err(TableError::Version { found: 2 }));
        assert_eq!(parse(b"something else"), Err(TableError::NotATable));
    }

    /// A table of servers that share each pool by reads a second, and by bytes too.
    fn full(servers: u32, pools: u32, dimensions: &[Dimension]) -> Table {
        let mut table = Table { epoch: Epoch(1 << 32), generation: 1 << 24, ..Table::default() };
        for number in 0..servers {
            let at = table.ensure_server(&format!("storage-{number:04}")) as usize;
            table.servers[at].lease_ms = 3000;
            table.servers[at].seq = (1 << 24) - u64::from(number);
        }
        for number in 0..pools {
            let name = format!("tenant-{number:05}");
            for server in 0..servers {
                let rate = |of: Dimension| match of.key() {
                    "riops" => 3000,
                    _ => 100 << 20,
                };
                let limited = Rates::from_fn(|of| match dimensions.contains(&of) {
                    true => rate(of),
                    false => Rates::NO_LIMIT,
                });
                let (granted, reserved, demand) = (limited, limited, limited);
                table.set_row(&name, Row { server, weight: 300, granted, reserved, demand });
            }
        }
        table
    }

    /// The figures of docs/decisions/070.
    #[test]
    fn a_table_has_the_bytes_that_are_told() {
        let riops = &[Dimension::Riops][..];
        let both = &[Dimension::Riops, Dimension::Rbps][..];
        let sizes = [1, 100].map(|pools| {
            [10, 100, 1000].map(|servers| {
                [riops, both].map(|dimensions| write(&full(servers, pools, dimensions)).len())
            })
        });
        let one = [[378, 468], [3438, 4338], [35_784, 44_784]];
        let hundred = [[10_674, 19_674], [93_924, 183_924], [1_014_597, 1_914_597]];
        assert_eq!(sizes, [one, hundred]);
        // A row each, whatever the number of pools: 10,000 of 10 servers fit, of 1,000 they do not.
        let row = write(&full(10, 101, riops)).len() - write(&full(10, 100, riops)).len();
        assert!(10_000 * row < TABLE_BYTES_MAX && 100 * 10_000 * row > TABLE_BYTES_MAX);
    }
}
