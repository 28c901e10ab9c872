//! Runs of whole scenarios, against what arithmetic says.

mod bfq;
mod bfq_flash;
mod bfq_rows;
mod cached;
mod depths;
mod determinism;
mod ends;
mod engines;
mod flows;
mod forks;
mod limits;
mod pacing;
mod path_delay;
mod priorities;
mod queues;
mod random_scenarios;
mod requests;
mod shapes;
mod steady;
mod support;
mod timed_changes;
mod traces;
mod writeback;
