//! How much of the device is used.

pub(crate) mod cost;
