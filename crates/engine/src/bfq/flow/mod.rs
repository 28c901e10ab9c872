//! Flows: requests of one client that are scheduled as one, with the statistics of each (`bfq_queue`).

mod owner;
mod payback;
mod queue;
mod sort_list;
mod sparse_state;
mod table;
mod think_time;

pub(crate) use self::owner::{Kind, Owner};
pub(crate) use self::queue::{FlowState, is_far};
pub(crate) use self::table::Flows;
pub(crate) use self::think_time::ThinkTime;
