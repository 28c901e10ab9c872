//! Tests of the `weir` command as it is built: one program, so that what they share is used by it.

mod calibrate;
mod config_check;
mod demo;
mod docs;
mod lab_fio;
mod serving;
mod support;
mod usage;
