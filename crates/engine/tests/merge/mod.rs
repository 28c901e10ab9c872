//! Merging, without the rest of the scheduler: the timelines of spec/bfq 7.12 to 7.14, and what holds for all of them.

mod properties;
mod timelines;
mod world;
