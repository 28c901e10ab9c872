//! Checks of the manual: printed output, examples, references, decisions.

mod decisions;
pub(crate) mod examples;
mod page;
mod printed;
mod spec;
