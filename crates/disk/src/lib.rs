//! Device models without I/O: what a disk would do, and when it would be done.
