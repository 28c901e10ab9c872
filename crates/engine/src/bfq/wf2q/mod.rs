//! B-WF2Q+: order of service among flows and cgroups by weight, with budgets instead of request lengths (spec/bfq 2).

mod entity;
mod heap;
mod hierarchy;
mod sched_data;
mod service_tree;

pub(crate) use self::entity::{Entity, EntityId, State};
pub(crate) use self::hierarchy::Hierarchy;
pub(crate) use self::sched_data::Prio;
pub(crate) use self::service_tree::{Return, ServiceTree};
