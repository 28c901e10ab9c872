//! The engine: throttling and scheduling of one device's requests, without I/O, clock or threads.
