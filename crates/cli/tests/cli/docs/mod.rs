//! The manual against the program: what it prints, what it takes, what it knows.

mod decisions;
mod examples;
mod page;
mod printed;
mod spec;
