//! The lab: what would happen if. Workloads run against disks and limits in virtual time, around the very engine that
//! serves.
//!
//! This crate is its beginning. What is here: [`fio`], which reads fio job files as they are into a validated model,
//! the workload description of the lab, and [`report`], which shows what a run came to ([`results`]). What is not here
//! yet: the simulator that runs the jobs, the page cache model and trace replay. Nothing in this crate issues a request so
//! far.
//!
//! Reading a file needs no clock, no file system and no environment: text and variables are arguments, so the same
//! input gives the same jobs everywhere.
//!
//! ```
//! use std::collections::BTreeMap;
//! let text = b"[global]\nrw=randread\nbs=4k\n[fast]\nsize=1g\n[slow]\nsize=${SIZE}\nstonewall\n";
//! let env = BTreeMap::from([("SIZE".into(), "20%".into())]);
//! let file = weir_lab::fio::parse("two.fio", text, &env).unwrap();
//! assert_eq!(file.jobs.len(), 2);
//! assert_eq!(file.jobs[1].stage, 1);
//! ```

#![forbid(unsafe_code)]

pub mod cache;
pub mod fio;
pub mod random;
pub mod report;
pub mod results;
pub mod stream;
