//! Checks of the manual: printed output, examples, references, decisions.

mod decisions;
mod examples;
mod page;
mod printed;
mod spec;
