//! Which of the requests that may go is next at the device.
//!
//! A scheduler sees a request when it is past every limit and gives it out when the device window has room. It
//! keeps no request of its own: lists are threaded through the records, turns through clients and tasks.

mod take_turns;

pub(crate) use take_turns::TakeTurns;
