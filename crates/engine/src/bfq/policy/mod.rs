//! Decisions of BFQ, which look at several of its parts. The parts know neither them nor each other's policies.

mod check;
mod choice;
mod destage;
mod inject;
mod lifecycle;
mod merging;
mod shared_stream;
