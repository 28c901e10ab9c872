//! Files, block devices, memory and sockets over io_uring.
