//! Bins of a latency histogram: octaves of eight linear bins each, in integers.

/// Bins of an octave, which double a time together. 8 × 8 bytes are one line of cache.
pub(crate) const BINS: usize = 8;
const BINS_LOG2: u32 = BINS.trailing_zeros();
/// Octaves: the first has times below 2 × [`LEAST_NS`], the last all from 2⁴¹ ns (36 minutes) on.
pub(crate) const OCTAVES: usize = 32;
/// Times below are counted as if they were so long: nothing that a device does is shorter.
const LEAST_NS: u64 = 1 << LEAST_LOG2;
const LEAST_LOG2: u32 = 10;

/// Octave and bin of a time.
#[inline]
pub(crate) fn place(ns: u64) -> (usize, usize) {
    let ns = ns.max(LEAST_NS);
    let octave = (ns.ilog2() - LEAST_LOG2) as usize;
    if octave >= OCTAVES {
        return (OCTAVES - 1, BINS - 1);
    }
    let bin = (ns >> (octave as u32 + LEAST_LOG2 - BINS_LOG2)) as usize & (BINS - 1);
    (octave, bin)
}

/// The least time of a bin; of the bin after the last, that of the next octave's first.
pub(crate) fn start_ns(octave: usize, bin: usize) -> u64 {
    if (octave, bin) == (0, 0) {
        return 0;
    }
    ((BINS + bin) as u64) << (octave as u32 + LEAST_LOG2 - BINS_LOG2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_each_other_and_hold_their_times() {
        let mut end = 0;
        for octave in 0..OCTAVES {
            for bin in 0..BINS {
                assert_eq!(start_ns(octave, bin), end, "{octave} {bin}");
                end = start_ns(octave, bin + 1);
                let start = start_ns(octave, bin);
                for ns in [start, start + (end - start) / 2, end - 1] {
                    assert_eq!(place(ns), (octave, bin), "{ns}");
                }
            }
        }
        assert_eq!(end, 1 << 42);
        assert_eq!(place(u64::MAX), (OCTAVES - 1, BINS - 1));
    }
}
