//! A trace's places on a target of another size.

/// Where requests may lie on the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    /// Bytes that can be reached: whole blocks.
    size: u64,
    /// Alignment of offsets and lengths; a power of two.
    block: u64,
}

/// An extent on the target, and how it was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fitted {
    pub(super) offset: u64,
    pub(super) len: u32,
    /// It lay, or reached, beyond the target's end.
    pub(super) wrapped: bool,
    /// It was cut to the target's size.
    pub(super) clipped: bool,
    /// It was widened to whole blocks.
    pub(super) widened: bool,
}

/// The longest request, in whole blocks of any size up to 1 MiB.
const LEN_MAX: u64 = 4095 << 20;

impl Room {
    /// The room on a target; `None` if it has not a single block.
    pub(super) fn new(size: u64, block: u32) -> Option<Room> {
        let block = u64::from(block.max(1)).next_power_of_two();
        let size = size / block * block;
        (size > 0).then_some(Room { size, block })
    }

    pub(super) fn size(self) -> u64 {
        self.size
    }

    /// Puts a request onto the target.
    ///
    /// It is widened to whole blocks, and its offset taken modulo the target's size; if it then reaches beyond the end, it
    /// moves down to end there. So neighbours stay neighbours, but where the target ends, and nothing is left out.
    pub(super) fn fit(self, offset: u64, len: u32) -> Fitted {
        let start = offset / self.block * self.block;
        // A trace's extents end below 2^63.
        let end = (offset + u64::from(len)).next_multiple_of(self.block);
        let whole = end - start;
        let kept = whole.min(self.size).min(LEN_MAX / self.block * self.block);
        let wrapped_to = start % self.size;
        let offset = wrapped_to.min(self.size - kept);
        Fitted {
            offset,
            len: u32::try_from(kept).expect("LEN_MAX has 32 bits"),
            wrapped: offset != start,
            clipped: kept < whole,
            widened: whole > u64::from(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_wrap() {
        let room = Room::new(1_000_000, 512).unwrap();
        assert_eq!(room.size(), 999_936);
        let fit = |offset, len| {
            let fitted = room.fit(offset, len);
            let marks = [(fitted.wrapped, 'w'), (fitted.clipped, 'c'), (fitted.widened, 'b')];
            let marks: String = marks.iter().filter(|mark| mark.0).map(|mark| mark.1).collect();
            (fitted.offset, fitted.len, marks)
        };
        let said = |marks: &str| marks.to_owned();
        assert_eq!(fit(0, 512), (0, 512, said("")));
        assert_eq!(fit(999_424, 512), (999_424, 512, said("")));
        assert_eq!(fit(999_936, 512), (0, 512, said("w")));
        assert_eq!(fit(999_424, 1024), (998_912, 1024, said("w")));
        assert_eq!(fit(5 * 999_936 + 1024, 512), (1024, 512, said("w")));
        assert_eq!(fit(100, 100), (0, 512, said("b")));
        assert_eq!(fit(500, 100), (0, 1024, said("b")));
        assert_eq!(fit(0, u32::MAX), (0, 999_936, said("cb")));
        assert_eq!(fit(512, 999_936), (0, 999_936, said("w")));
        assert_eq!(fit((1 << 63) - 1 - 512, 512).1, 1024);
    }

    #[test]
    fn the_longest_request_is_whole_blocks() {
        let room = Room::new(1 << 40, 4096).unwrap();
        let fitted = room.fit(0, u32::MAX);
        assert!(fitted.clipped && fitted.len.is_multiple_of(4096));
        assert_eq!(Room::new(4095, 4096), None);
        assert_eq!(Room::new(0, 1), None);
    }
}
