//! Wire of a fixed rate that carries one transfer at a time.

const NANOS: u64 = 1_000_000_000;

/// A wire of a fixed rate, first come, first served.
///
/// Errors do not add up: a transfer ends at a fraction of a nanosecond, and the next begins there. Only the reported time is
/// rounded, up.
#[derive(Clone, Debug)]
pub(crate) struct Pipe {
    rate: u64,
    /// The wire is free at `free_ns + carry / rate`; `carry` is less than the rate.
    free_ns: u64,
    carry: u64,
}

impl Pipe {
    /// An idle wire of `rate` bytes a second, from 1 to 10^12.
    pub(crate) fn new(rate: u64) -> Pipe {
        Pipe { rate, free_ns: 0, carry: 0 }
    }

    /// Sends `bytes`, at most 2^32, from `now_ns` on; returns the end.
    pub(crate) fn send(&mut self, now_ns: u64, bytes: u64) -> u64 {
        if now_ns > self.free_ns {
            (self.free_ns, self.carry) = (now_ns, 0);
        }
        // In units of 1/rate ns; 2^32 x 10^9 + 10^12 is below 2^63.
        let time = bytes * NANOS + self.carry;
        self.free_ns = self.free_ns.saturating_add(time / self.rate);
        self.carry = time % self.rate;
        self.free_ns.saturating_add(u64::from(self.carry > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_row_ends_where_arithmetic_says() {
        for rate in [3, 4096, 999_999_937, 1_000_000_000_000] {
            let mut pipe = Pipe::new(rate);
            for n in 1..=10_000u64 {
                let exact = (u128::from(n) * 4097 * u128::from(NANOS)).div_ceil(u128::from(rate));
                assert_eq!(u128::from(pipe.send(0, 4097)), exact, "{n} at rate {rate}");
            }
        }
        let mut pipe = Pipe::new(1_000_000_000);
        assert_eq!(
            [pipe.send(5, 1 << 32), pipe.send(1 << 40, 10)],
            [(1 << 32) + 5, (1 << 40) + 10]
        );
    }
}
