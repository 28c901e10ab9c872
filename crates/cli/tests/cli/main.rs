//! Tests of the built `weir` command, in one program with a shared module.

mod calibrate;
mod config;
mod demo;
mod docs;
mod lab_fio;
mod serving;
mod support;
mod usage;
