//! Limits that bind only when the disk is busy, against a disk that serves one request after the other.

mod cost;
mod gate;
mod gate_monotone;
mod mixes;
mod monotone;
mod odd;
mod proportional;
mod rw_limit;
mod settings;
mod world;
