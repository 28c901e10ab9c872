//! Reports of a run for people and programs: [`Results`](crate::results::Results) as a table, as JSON, as fio's JSON, as a
//! page with plots, and two of them side by side.
//!
//! Reports decide nothing and measure nothing: the same results give the same bytes everywhere. Floats appear only
//! where a quotient is shown, and are rounded to a fixed number of decimals before they are printed.

mod bfq;
mod columns;
mod compare;
mod figures;
mod fio_json;
mod fio_latency;
mod html;
mod json;
mod notes;
mod table;

pub use columns::{unbroken, wrap};
pub use compare::{Comparison, compare};
pub use fio_json::fio_json;
pub use html::{calibration, html};
pub use json::json;
pub use notes::notes;
pub use table::table;
