//! What reports make of results whose every number is known.

mod fio;
mod page;
mod programs;
mod sample;
mod text;
