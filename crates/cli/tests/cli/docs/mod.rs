//! The manual against the program: what it prints, what it takes, what it knows.

mod page;
mod printed;
