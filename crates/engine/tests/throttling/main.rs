//! Limits while requests wait for them: who goes when, and how much in all.

mod instalments;
mod order;
mod world;
