//! Requests that are held by the engine, or carried out by a worker.

use std::collections::HashMap;
use std::sync::Arc;

use slab::Slab;
use weir_engine::{Dispatch, Event, Instant, RequestId, Ticket};

use crate::clients::ClientKey;
use crate::device::messages::{Message, Messages};
use crate::device::shared::{Job, Shared};

/// A request of data in the engine.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) message: Message,
    pub(super) unique: u64,
    pub(super) client: ClientKey,
    /// `None` until it is submitted.
    pub(super) id: Option<RequestId>,
}

/// The requests; the driver's device.
#[derive(Debug)]
pub(super) struct InFlight {
    held: Slab<Held>,
    by_unique: HashMap<u64, usize>,
    bytes: usize,
    messages: Messages,
    shared: Arc<Shared>,
    done: Vec<Job>,
}

impl InFlight {
    pub(super) fn new(shared: Arc<Shared>) -> InFlight {
        InFlight {
            held: Slab::new(),
            by_unique: HashMap::new(),
            bytes: 0,
            messages: Messages::default(),
            shared,
            done: Vec::new(),
        }
    }

    pub(super) fn set_buffer_len(&mut self, len: usize) {
        self.messages.set_buffer_len(len);
    }

    /// Bytes of requests of data that are held or carried out.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn buffer(&mut self) -> Message {
        self.messages.buffer()
    }

    pub(super) fn put_back(&mut self, message: Message) {
        self.messages.put_back(message);
    }

    /// Has a worker carry a request out at once.
    pub(super) fn carry_out(&mut self, message: Message) {
        let message = self.messages.keep(message);
        self.shared.push(Job { message, ticket: None });
    }

    /// Holds a request; the tag names it.
    pub(super) fn hold(&mut self, mut held: Held) -> u64 {
        held.message = self.messages.keep(held.message);
        self.bytes += held.message.bytes.len();
        let unique = held.unique;
        let tag = self.held.insert(held);
        self.by_unique.insert(unique, tag);
        tag as u64
    }

    /// The engine has it.
    pub(super) fn is_inside(&mut self, tag: u64, id: RequestId) {
        self.held[tag as usize].id = Some(id);
    }

    /// A request that is held, by the kernel's id.
    pub(super) fn find(&self, unique: u64) -> Option<(u64, RequestId)> {
        let tag = *self.by_unique.get(&unique)?;
        Some((tag as u64, self.held[tag].id?))
    }

    /// A held request will not be carried out.
    pub(super) fn drop_held(&mut self, tag: u64) -> ClientKey {
        let held = self.remove(tag);
        self.bytes -= held.message.bytes.len();
        self.messages.put_back(held.message);
        held.client
    }

    fn remove(&mut self, tag: u64) -> Held {
        let held = self.held.remove(tag as usize);
        self.by_unique.remove(&held.unique);
        held
    }

    /// What workers have done since the last call: tickets and clients of requests of data.
    pub(super) fn take_done(&mut self) -> impl Iterator<Item = (Ticket, ClientKey)> {
        self.shared.take_done(&mut self.done);
        let InFlight { done, messages, bytes, .. } = self;
        done.drain(..).filter_map(|job| {
            if job.ticket.is_some() {
                *bytes -= job.message.bytes.len();
            }
            messages.put_back(job.message);
            job.ticket
        })
    }
}

impl weir_driver::Device for InFlight {
    fn issue(&mut self, _now: Instant, dispatch: Dispatch) {
        let Held { message, client, .. } = self.remove(dispatch.request.tag);
        self.shared.push(Job { message, ticket: Some((dispatch.ticket, client)) });
    }

    fn record(&mut self, _now: Instant, _event: Event) {}
}
