//! The lab: simulation of workloads on disks under limits, in virtual time, with the same engine that serves.
//!
//! ```text
//!  job file ─► fio ──────┐
//!  scenario ─► scenario_file ─► builder ─► Scenario ─► sim ─► Results ─► report
//!  trace ──────────────┘         streams, page cache, engine, disk
//! ```
//!
//! Text and variables are arguments, and only a trace is read from a file: the same input and seed give the same results
//! on every machine, to the last byte of a report.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::ops::ControlFlow;
//! use weir_lab::builder::{ScenarioBuilder, Source};
//!
//! let text = b"[reader]\nrw=randread\nbs=4k\ndirect=1\nsize=1g\nruntime=10\ntime_based\n".to_vec();
//! let source = Source::Jobs { name: "reader.fio".into(), text, env: BTreeMap::new() };
//! let mut builder = ScenarioBuilder::new("a limited reader", source);
//! builder.set("disk", "null,latency=100us")?;
//! builder.set("max", "riops=500")?;
//! let results = weir_lab::sim::run(&builder.build()?, &mut |_| ControlFlow::Continue(()))?;
//! assert_eq!(results.rows[0].read.iops().round(), 500.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod builder;
pub mod report;
pub mod reproduce;
pub mod results;
pub mod scenario;
pub mod scenario_file;
pub mod sim;
pub mod what_if;
