//! Reports of results whose every number is known.

mod fio;
mod page;
mod programs;
mod random;
mod sample;
mod text;
