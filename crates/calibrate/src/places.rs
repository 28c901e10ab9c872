//! Positions of a load's requests.

use thiserror::Error;
use weir_units::Bytes;

use crate::load::{Load, Order};

/// Bytes of the smallest request; all offsets are multiples of it.
pub(crate) const PAGE: u64 = 4096;

/// Distance from the end of another request within which the model counts a request as sequential.
const NEAR: u64 = 16 << 20;

/// The measured part of a device: all whole pages of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    size: u64,
}

/// Reason why a device cannot be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RoomError {
    /// Random offsets would be near each other.
    #[error(
        "{size} are too few to measure random requests in: at least {} are needed",
        Bytes(Room::SIZE_MIN)
    )]
    Small {
        /// Bytes of the device.
        size: Bytes,
    },
    /// Blocks are longer than 4 KiB.
    #[error("blocks of {block} are too large: the model counts in pages of 4 KiB")]
    Blocks {
        /// Bytes of a block.
        block: Bytes,
    },
}

impl Room {
    /// The smallest device that can be measured: eight times the distance at which requests count as near.
    pub const SIZE_MIN: u64 = 128 << 20;

    /// The room on a device of `size` bytes in blocks of `block`.
    ///
    /// # Errors
    /// [`RoomError`] if the device is too small or its blocks are too large.
    pub fn new(size: u64, block: u32) -> Result<Room, RoomError> {
        if u64::from(block) > PAGE {
            return Err(RoomError::Blocks { block: Bytes(block.into()) });
        }
        if size < Room::SIZE_MIN {
            return Err(RoomError::Small { size: Bytes(size) });
        }
        Ok(Room { size: size / PAGE * PAGE })
    }

    /// Bytes.
    pub fn size(self) -> u64 {
        self.size
    }
}

/// Generator of offsets; always the same sequence.
#[derive(Debug)]
pub(crate) struct Places {
    room: Room,
    /// Offset of each stream in its part of the device.
    streams: Vec<u64>,
    turn: usize,
    /// End of the last sequential step of one stream. The next one continues there, so that no cache has read it before.
    cursor: u64,
    random: u64,
    /// End of the last request.
    end: u64,
}

impl Places {
    pub(crate) fn new(room: Room) -> Places {
        // Rates of platters are about average there.
        let cursor = room.size / 2 / PAGE * PAGE;
        Places { room, streams: Vec::new(), turn: 0, cursor, random: 0x9e37_79b9_7f4a_7c15, end: 0 }
    }

    /// Moves to the begin of `load`.
    pub(crate) fn begin(&mut self, load: &Load) {
        self.streams.clear();
        self.turn = 0;
        match load.order {
            Order::Sequential { streams: 1 } => self.streams.push(self.cursor),
            Order::Sequential { streams } => {
                let part = self.part(streams);
                // Half a part in: at its beginning, the first request would be sequential on a new disk.
                self.streams.extend(
                    (0..u64::from(streams)).map(|stream| stream * part + part / 2 / PAGE * PAGE),
                );
            }
            Order::Random => {}
        }
    }

    /// Bytes of a stream's part of the device.
    fn part(&self, streams: u32) -> u64 {
        self.room.size / u64::from(streams) / PAGE * PAGE
    }

    /// The offset of the next request.
    pub(crate) fn next(&mut self, load: &Load) -> u64 {
        let len = u64::from(load.len);
        let offset = match load.order {
            Order::Sequential { streams } => {
                let part = self.part(streams);
                let (turn, first) = (self.turn, self.turn as u64 * part);
                self.turn = (turn + 1) % self.streams.len();
                let at = &mut self.streams[turn];
                // On a small device a part may be shorter than a request; then the stream starts again each time.
                if *at + len > first + part {
                    *at = first;
                }
                let offset = (*at).min(self.room.size - len);
                *at += len;
                if streams == 1 {
                    self.cursor = *at;
                }
                offset
            }
            Order::Random => self.far(len),
        };
        self.end = offset + len;
        offset
    }

    /// A random offset, usually not near the end of the last request.
    fn far(&mut self, len: u64) -> u64 {
        const TRIES: usize = 16;
        let mut offset = 0;
        for _ in 0..TRIES {
            let slots = self.room.size / len;
            offset = ((u128::from(self.draw()) * u128::from(slots)) >> 64) as u64 * len;
            if offset.abs_diff(self.end) > NEAR {
                break;
            }
        }
        offset
    }

    /// SplitMix64, after Steele, Lea and Flood (2014).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let number = self.random;
        let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_engine::utilisation::Positions;
    use weir_engine::{Direction, Extent};

    use super::*;

    fn load(order: Order, len: u32) -> Load {
        Load { direction: Direction::Read, order, len, depth: 1 }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        assert_eq!(
            Room::new(1 << 20, 512).unwrap_err().to_string(),
            "1 MiB are too few to measure random requests in: at least 128 MiB are needed"
        );
        assert_eq!(
            Room::new(1 << 40, 8192).unwrap_err().to_string(),
            "blocks of 8 KiB are too large: the model counts in pages of 4 KiB"
        );
        assert_eq!(Room::new((1 << 30) + 5000, 1).unwrap().size(), (1 << 30) + 4096);
    }

    #[test]
    fn streams_are_sequential_and_random_offsets_are_not() {
        let room = Room::new(1 << 40, 512).unwrap();
        let mut places = Places::new(room);
        for (order, streams, near) in [
            (Order::Sequential { streams: 1 }, 1, 99),
            (Order::Sequential { streams: 8 }, 8, 92),
            (Order::Sequential { streams: 8 }, 7, 0),
            (Order::Random, 1, 0),
        ] {
            let load = load(order, 4096);
            places.begin(&load);
            let mut positions = Positions::new(streams);
            let seen = (0..100)
                .filter(|_| positions.is_sequential(Extent::new(places.next(&load), load.len)))
                .count();
            assert_eq!(seen, near, "{order:?} {streams}");
        }
    }

    #[test]
    fn a_step_goes_on_where_the_last_one_ended() {
        let mut places = Places::new(Room::new(1 << 30, 512).unwrap());
        let load = load(Order::Sequential { streams: 1 }, 1 << 20);
        places.begin(&load);
        assert_eq!([places.next(&load), places.next(&load)], [1 << 29, (1 << 29) + (1 << 20)]);
        places.begin(&load);
        assert_eq!(places.next(&load), (1 << 29) + (2 << 20));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn all_places_are_whole_and_inside(
            size in Room::SIZE_MIN..1 << 42, streams in 0..100u32, pages in 1..300u32,
        ) {
            let room = Room::new(size, 512).unwrap();
            let mut places = Places::new(room);
            let order = if streams == 0 { Order::Random } else { Order::Sequential { streams } };
            let load = load(order, pages * 4096);
            for _ in 0..2 {
                places.begin(&load);
                for _ in 0..300 {
                    let offset = places.next(&load);
                    prop_assert!(offset.is_multiple_of(PAGE) && offset + u64::from(load.len) <= size);
                }
            }
        }
    }
}
