//! Limits while requests wait for them: who goes when, and how much in all.

#[path = "../../../model/tests/cases/mod.rs"]
mod cases;
mod instalments;
mod order;
mod used_up;
mod world;
