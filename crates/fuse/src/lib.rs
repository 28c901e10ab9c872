//! Weir's file systems.

#![forbid(unsafe_code)]
