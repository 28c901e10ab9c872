//! Slices beyond single ticks: how a queue drains (spec/throttle P13), and how far even spacing is ever from them
//! (spec/throttle P24).

#[path = "../cases/mod.rs"]
mod cases;
mod distance;
mod driver;
mod visits;

/// Whether a test has the cases that it was written with, and may expect some of them to be near its bounds.
fn has_its_own_cases() -> bool {
    std::env::var_os("PROPTEST_CASES").is_none() && std::env::var_os("PROPTEST_RNG_SEED").is_none()
}
