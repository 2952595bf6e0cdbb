//! Messages between processes and the store.

use ratekeeper_core::{
    Span, Take, Timestamp, Verb,
    store_api::{AllotmentCall, AllotmentReply},
};

/// One request of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientRequest {
    pub(super) cost: u64,
    pub(super) max_wait: Span,
    pub(super) is_peek: bool,
}

impl ClientRequest {
    pub(super) fn verb(&self) -> Verb {
        if self.is_peek { Verb::Peek } else { Verb::Take(Take::up_to(self.max_wait)) }
    }
}

/// A message to the store.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) process: usize,
    /// Changes with each restart of the process.
    pub(super) generation: u64,
    /// Changes with each failover.
    pub(super) epoch: u64,
    /// Numbers the messages of one process about one key.
    pub(super) number: u64,
    pub(super) sent_at: u64,
    pub(super) deadline: Timestamp,
    pub(super) message: Message,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    /// A holder's call.
    Allot { key: usize, call: AllotmentCall, requests: Vec<ClientRequest> },
    /// Requests that are decided one after another.
    Decide { key: usize, requests: Vec<ClientRequest> },
    /// A take of all keys.
    Together { cost: u64, max_wait: Span },
    /// A refund of a use.
    Refund { key: usize, cost: u64, of: usize, at: Option<Timestamp>, is_undo: bool },
}

/// A decision about one request, as the process receives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    pub(super) request: ClientRequest,
    pub(super) is_allowed: bool,
    /// When it proceeds, by the store's clock.
    pub(super) at: Timestamp,
    /// The use in the records.
    pub(super) of: usize,
}

/// A message to a process.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) process: usize,
    pub(super) generation: u64,
    pub(super) number: u64,
    pub(super) key: usize,
    pub(super) sent_at: u64,
    /// The call's number, and what the store replied; `None` if it did not carry out the call.
    pub(super) allotted: Option<(u64, Option<AllotmentReply>)>,
    pub(super) decided: Vec<Decided>,
}
