//! Merging, without the rest of the scheduler: the specification's timelines, and what holds for all of them.

mod properties;
mod timelines;
mod world;
