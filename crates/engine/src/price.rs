//! Prices of operations. Nothing is free: an operation without a price would be a way around every limit.

use core::num::NonZeroU32;

use crate::types::{Cost, Op, Part, Request};

/// The bytes that an operation is charged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum BytePrice {
    /// As many as the extent has.
    Length,
    /// This many, whatever the extent.
    Fixed(u32),
}

/// The price of one kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Price {
    /// I/Os charged, at least 1.
    pub ios: NonZeroU32,
    /// Bytes charged.
    pub bytes: BytePrice,
}

/// The price list of a device. Reads and writes cost one I/O and their length; the rest can be set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Prices {
    /// One I/O and 512 bytes by default: what the device writes for it is not known, and nothing is free under a
    /// limit in bytes either.
    pub flush: Price,
    /// One I/O and 512 bytes by default, whatever the length, as the kernel charges a discard.
    pub discard: Price,
    /// One I/O and its length by default: where the device has no quick way, the zeroes are written.
    pub write_zeroes: Price,
    /// One I/O and its length by default: the device reads that much.
    pub cache: Price,
    /// One I/O and 512 bytes by default: metadata is looked up, no data moves.
    pub status: Price,
    /// A request longer than this counts as `length / iops_size` I/Os, in proportion; `None` counts each as one.
    /// Applies to operations that are charged their length.
    pub iops_size: Option<NonZeroU32>,
}

const ONE_IO: NonZeroU32 = NonZeroU32::MIN;

/// Of reads and writes.
const PLAIN: Price = Price { ios: ONE_IO, bytes: BytePrice::Length };

impl Default for Prices {
    fn default() -> Prices {
        let length = Price { ios: ONE_IO, bytes: BytePrice::Length };
        let sector = Price { ios: ONE_IO, bytes: BytePrice::Fixed(512) };
        Prices {
            flush: sector,
            discard: sector,
            write_zeroes: length,
            cache: length,
            status: sector,
            iops_size: None,
        }
    }
}

impl Prices {
    /// The price of `op`.
    pub fn of(&self, op: Op) -> Price {
        match op {
            Op::Read | Op::Write => PLAIN,
            Op::Flush => self.flush,
            Op::Discard => self.discard,
            Op::WriteZeroes => self.write_zeroes,
            Op::Cache => self.cache,
            Op::Status => self.status,
        }
    }

    /// How many units make one I/O; see [`Cost::ios`].
    pub(crate) fn units_per_io(&self) -> u64 {
        self.iops_size.map_or(1, |size| u64::from(size.get()))
    }

    /// What `request` is charged.
    pub(crate) fn cost(&self, request: &Request) -> Cost {
        // Nearly all are these, which have no price of their own.
        let is_plain = matches!(request.op, Op::Read | Op::Write);
        let price = if is_plain { PLAIN } else { self.of(request.op) };
        let len = u64::from(request.extent.len);
        let unit = self.units_per_io();
        let (bytes, units) = match price.bytes {
            BytePrice::Length => (len, if self.iops_size.is_some() { len.max(unit) } else { unit }),
            BytePrice::Fixed(bytes) => (u64::from(bytes), unit),
        };
        let ios = units * u64::from(price.ios.get());
        match request.part {
            Part::Whole => Cost::whole(bytes, ios),
            Part::Remainder => Cost { bytes: 0, ios, is_remainder: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Extent, TaskId};

    fn cost(prices: &Prices, op: Op, len: u32) -> (u64, u64) {
        let task = TaskId { index: 0, generation: 0 };
        let cost = prices.cost(&Request::new(task, op, Extent::new(0, len), 0));
        (cost.bytes, cost.ios)
    }

    #[test]
    fn every_operation_has_a_price() {
        let prices = Prices::default();
        for (op, bytes) in [
            (Op::Read, 6144),
            (Op::Write, 6144),
            (Op::Flush, 512),
            (Op::Discard, 512),
            (Op::WriteZeroes, 6144),
            (Op::Cache, 6144),
            (Op::Status, 512),
        ] {
            assert_eq!(cost(&prices, op, 6144), (bytes, 1), "{op:?}");
        }
    }

    #[test]
    fn large_requests_count_by_size() {
        let prices = Prices { iops_size: NonZeroU32::new(4096), ..Prices::default() };
        // 6 KiB at 4 KiB an I/O is one and a half, in units of 1/4096.
        assert_eq!(cost(&prices, Op::Read, 6144), (6144, 6144));
        assert_eq!(cost(&prices, Op::Read, 512), (512, 4096));
        assert_eq!(cost(&prices, Op::Flush, 0), (512, 4096));
    }
}
