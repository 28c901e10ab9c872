//! Scenarios and properties of the engine, in one program. Tests that count allocations are programs of their own.

mod bfq;
mod bfq_destage;
mod bfq_idling;
mod bfq_joining;
mod bfq_properties;
mod bfq_raising;
mod blame;
mod exports;
mod latencies;
mod merge;
mod modelled_share;
mod pieces;
mod promote;
mod rw_limit;
mod serialised;
mod support;
mod switching;
mod throttling;
mod vectors;
mod watermark;
