//! Requests at limits: order, times and totals.

#[path = "../../../model/tests/cases/mod.rs"]
mod cases;
mod instalments;
mod leases;
mod order;
mod used_up;
mod world;
