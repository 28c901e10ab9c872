//! Reports of a run: [`Results`](crate::results::Results) as a table, JSON, fio's JSON, a page with plots, and a
//! comparison of two.
//!
//! Reports decide and measure nothing: the same results give the same bytes everywhere. Floats appear only as
//! quotients, rounded to a fixed number of decimals before they are printed.

mod bfq;
mod columns;
mod compare;
mod figures;
mod fio_json;
mod fio_latency;
mod governor;
mod html;
mod json;
mod notes;
mod table;
mod waits;

pub use columns::{unbroken, wrap};
pub use compare::{Comparison, compare};
pub use fio_json::fio_json;
pub use html::{calibration, html};
pub use json::json;
pub use notes::notes;
pub use table::table;
