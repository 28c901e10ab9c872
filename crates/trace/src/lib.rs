//! Block traces of others, read line by line.

#![forbid(unsafe_code)]
