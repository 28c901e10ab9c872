//! Slow, obvious models of the engine, used as oracles by tests.
//!
//! Nothing here is shipped, and nothing here shares code with the engine: each model is written from
//! docs/spec alone, so that a mistake has to be made twice before a test can miss it. Clarity goes before
//! speed everywhere: plain vectors and ordered maps, every amount an `i128`, one step after the other.
//!
//! - [`kernel`]: the tree of slices of Linux's blk-throttle, profile by profile, to the tick.
//! - [`pace`]: what Weir's own throttle promises about a run, checked from the record of the run.
//! - [`share`]: what budget fair queueing promises by weight, checked from what was served.
//! - [`wf2q`]: the next entity by B-WF2Q+, in a tree of any depth, found by looking at all.

#![forbid(unsafe_code)]

pub mod kernel;
pub mod pace;
pub mod share;
pub mod wf2q;
