//! Invariants of BFQ (spec/bfq 11), for tests, the lab and fuzzers.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::data::BfqData;
use super::in_service::InService;
use super::merger::Merger;
use super::wf2q::State;
use crate::ensure::ensure;
use crate::requests::{Requests, Stage};
use crate::tree::Tree;

/// Checks flows, their requests and their entities. O(everything).
///
/// # Errors
///
/// A text that says what does not hold.
pub(super) fn check(
    data: &mut BfqData,
    in_service: Option<&InService>,
    merger: &Merger,
    tree: &Tree,
    requests: &Requests,
) -> Result<(), String> {
    let served = in_service.map(InService::flow);
    for at in data.flows.live() {
        check_flow(data, served, requests, at)
            .and_then(|()| merger.check(data, at))
            .and_then(|()| data.flows.check_wakers(at))
            .map_err(|what| format!("flow {at}: {what}"))?;
    }
    check_counts(data, requests)?;
    in_service.map_or(Ok(()), |in_service| in_service.check(data))?;
    merger.check_sets();
    data.schedule.check(tree, &data.flows.live())
}

/// A flow's requests are in both of its orders, and its state fits.
fn check_flow(
    data: &mut BfqData,
    served: Option<u32>,
    requests: &Requests,
    at: u32,
) -> Result<(), String> {
    let count = |stage: Stage| {
        let of_flow = requests
            .iter()
            .filter(|(index, record)| record.stage == stage && data.flows.flow_of(*index) == at);
        of_flow.map(|(index, _)| index).collect::<Vec<u32>>()
    };
    let (ready, out) = (count(Stage::Ready), count(Stage::Dispatched));
    let flow = &data.flows[at];
    let state = data.schedule.state(at);
    let is_busy = !matches!(state, State::Off | State::Idle);
    let is_counted = data.schedule.entity(at).is_counted;
    ensure(is_counted == (is_busy || flow.in_flight > 0), || {
        format!("{state:?}, {} out, counted: {is_counted}", flow.in_flight)
    })?;
    let (raising, wr_coeff) = (data.flows.raising(at), data.schedule.wr_coeff(at));
    raising.check(&data.device.wr_params())?;
    ensure(raising.state().wr_coeff() == wr_coeff, || {
        format!("{wr_coeff} times, and {raising:?}")
    })?;
    let is_gone = flow.is_orphaned() && flow.is_empty() && !is_busy;
    ensure(!is_gone, || "it should have been freed".into())?;
    // One more than there should be, so that a cycle ends.
    let [mut by_age, mut by_position] = data.flows.waiting(at, ready.len() + 1);
    let flow = &data.flows[at];
    let is_older = |pair: &[u32]| requests[pair[0]].since <= requests[pair[1]].since;
    ensure(by_age.windows(2).all(is_older), || "the oldest are not first".into())?;
    by_age.sort_unstable();
    ensure(by_age == ready, || format!("{ready:?} wait, listed are {by_age:?}"))?;
    ensure(flow.queued as usize == ready.len(), || format!("{} counted", flow.queued))?;
    ensure(flow.in_flight as usize == out.len(), || format!("{} out", flow.in_flight))?;
    let is_in_order = by_position.is_sorted_by_key(|&index| data.flows.position_of(index));
    ensure(is_in_order, || format!("by position they are {by_position:?}"))?;
    by_position.sort_unstable();
    ensure(by_position == ready, || format!("by position there are {by_position:?}"))?;
    let next = flow.next();
    ensure(next.map_or(ready.is_empty(), |next| ready.contains(&next)), || {
        format!("the next is {next:?} of {ready:?}")
    })?;
    let holds = served == Some(at);
    ensure(holds == (state == State::InService), || format!("{state:?}, its turn: {holds}"))?;
    ensure(holds || state.is_active() != ready.is_empty(), || {
        format!("{state:?} with {} requests", ready.len())
    })
}

/// Requests at the device are counted.
fn check_counts(data: &BfqData, requests: &Requests) -> Result<(), String> {
    let at_device = || requests.iter().filter(|(_, record)| record.stage == Stage::Dispatched);
    let (out, in_device) = (at_device().count(), data.device.in_flight());
    ensure(out == in_device as usize, || format!("{in_device} requests out, not {out}"))?;
    let bytes: u64 = at_device().map(|(_, record)| u64::from(record.request.data_len())).sum();
    ensure(bytes == data.device.bytes(), || {
        format!("{} bytes out, not {bytes}", data.device.bytes())
    })
}
