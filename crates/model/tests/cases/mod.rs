//! Random cases: seeded, shrinking, and with the line that runs them again.

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

/// Runs `cases` cases of `strategy`, the same ones every time. `PROPTEST_CASES` and `PROPTEST_RNG_SEED` ask for more or
/// for others.
pub(crate) fn run<S: Strategy>(
    test: &str,
    cases: u32,
    strategy: S,
    holds: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { cases };
    let seed = match asked.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => 1,
    };
    // Each test has cases of its own.
    let own = test.bytes().fold(seed, |own, byte| own.wrapping_mul(31).wrapping_add(byte.into()));
    let config = ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(own),
        max_shrink_iters: 10_000,
        failure_persistence: None,
        ..asked
    };
    if let Err(failed) = TestRunner::new(config).run(&strategy, holds) {
        panic!(
            "{failed}\nagain: PROPTEST_RNG_SEED={seed} PROPTEST_CASES={cases} cargo test -p {} {test}",
            env!("CARGO_PKG_NAME")
        );
    }
}
