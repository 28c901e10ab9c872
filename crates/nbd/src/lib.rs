//! The NBD protocol as bytes in, bytes out: messages and the server's session state machine.
