//! Pipelining: concurrent store calls of one connection, with replies in command order.
//!
//! With the embedded store every command is answered at once and nothing is queued here. With Redis, a client that
//! sends sixteen commands at once should wait for one round trip, not sixteen:
//!
//! ```text
//!   commands  a  b  PING  a  c          a, b and c are sent together; the second a waits for the first,
//!   replies   a  b  PING  a  c          since its decision depends on it
//! ```
//!
//! Commands on one counter are decided one after the other, in the order received. Sending them together would not keep
//! the order: a call that Redis rejects (an unknown script, a value stored under other rules) is sent again, behind the
//! later ones. Only its reply shows that it was executed.
//!
//! Bounds: [`MAX_SLOTS`] commands per connection, and [`MAX_IN_FLIGHT`] calls of all connections beyond one each.

use std::{collections::VecDeque, future::Future, pin::Pin, sync::Arc};

use futures_util::{StreamExt, stream::FuturesUnordered};
use smallvec::SmallVec;
use tokio::sync::Semaphore;

use super::{
    commands::{self, Pending},
    frame::{Command, Words},
    reply::{Protocol, Replies},
    session::Session,
    transaction::{Transaction, TransactionStep},
};

/// Commands of one connection whose replies have not been written yet.
pub(crate) struct Pipeline {
    /// In command order. The first has the number `first`.
    slots: VecDeque<PipelineSlot>,
    first: u64,
    in_flight: FuturesUnordered<InFlight>,
    /// Number of slots that are held back.
    held_back: usize,
    /// Calls that all connections together may have in flight, beyond one each.
    permits: Arc<Semaphore>,
}

/// Resolves to a command's number and its encoded reply.
type InFlight = Pin<Box<dyn Future<Output = (u64, Vec<u8>)> + Send>>;

enum PipelineSlot {
    Answered(Vec<u8>),
    /// The store call is in flight.
    InFlight {
        counter_ids: SmallVec<[u64; 1]>,
    },
    /// The store call waits for an earlier command on the same counter, or for a permit.
    HeldBack(Pending),
}

impl Pipeline {
    pub(crate) fn new(permits: Arc<Semaphore>) -> Self {
        Self { slots: VecDeque::new(), first: 0, in_flight: FuturesUnordered::new(), held_back: 0, permits }
    }

    /// Executes a command, or starts its store call. Completed replies are appended in command order.
    #[inline]
    pub(crate) async fn answer(&mut self, session: &mut Session, command: Command<'_>, replies: &mut Replies) {
        if let Some(transaction) = session.transaction.take() {
            return self.within(transaction, session, command, replies).await;
        }
        self.execute(session, command, replies).await;
    }

    /// Handles a command after `MULTI`. Nothing else is in flight then.
    #[cold]
    async fn within(
        &mut self,
        mut transaction: Transaction,
        session: &mut Session,
        command: Command<'_>,
        replies: &mut Replies,
    ) {
        match TransactionStep::of(command) {
            TransactionStep::Keep => {
                transaction.keep(command, replies);
                session.transaction = Some(transaction);
            }
            TransactionStep::Discard => replies.status("OK"),
            TransactionStep::Leave => self.execute(session, command, replies).await,
            TransactionStep::Execute => {
                transaction.announce(replies);
                let (mut at, mut words) = (0, Words::default());
                while let Some(taken) = transaction.next(at, &mut words) {
                    self.execute(session, Command::new(transaction.frames(at), &words), replies).await;
                    at += taken;
                }
                self.finish(session, replies).await;
            }
        }
    }

    #[inline]
    async fn execute(&mut self, session: &mut Session, command: Command<'_>, replies: &mut Replies) {
        if !self.slots.is_empty() && commands::waits_for_all_before(command) {
            self.finish(session, replies).await;
        }
        session.is_first_in_line = self.slots.is_empty();
        if self.slots.is_empty() {
            if let Some(pending) = commands::answer(session, command, replies) {
                // A command on several counters waits for all earlier ones, so it is the only one in flight.
                let is_alone = pending.is_unordered();
                self.begin(pending, session, replies.protocol);
                if is_alone {
                    self.finish(session, replies).await;
                }
            }
            return;
        }
        let mut own = Replies::with_protocol(replies.protocol);
        match commands::answer(session, command, &mut own) {
            Some(pending) => self.begin(pending, session, replies.protocol),
            None => self.slots.push_back(PipelineSlot::Answered(own.into_bytes())),
        }
        while self.slots.len() >= MAX_SLOTS {
            self.next(session, replies).await;
        }
    }

    /// Waits for all replies.
    #[inline]
    pub(crate) async fn finish(&mut self, session: &Session, replies: &mut Replies) {
        while !self.slots.is_empty() {
            self.next(session, replies).await;
        }
    }

    fn begin(&mut self, pending: Pending, session: &Session, protocol: Protocol) {
        self.slots.push_back(PipelineSlot::HeldBack(pending));
        self.held_back += 1;
        self.try_begin(self.slots.len() - 1, session, protocol);
    }

    /// Starts the call at this position, if no earlier command uses the same counter and a permit is available.
    fn try_begin(&mut self, position: usize, session: &Session, protocol: Protocol) {
        let PipelineSlot::HeldBack(pending) = &self.slots[position] else { return };
        let counter_ids = pending.counter_ids();
        let shares_counter = |earlier: &PipelineSlot| earlier.counter_ids().iter().any(|id| counter_ids.contains(id));
        if self.slots.range(..position).any(shares_counter) {
            return;
        }
        let counter_ids = counter_ids.clone();
        // One call per connection needs no permit; otherwise a connection could starve while others hold all permits.
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) if self.in_flight.is_empty() => None,
            Err(_) => return,
        };
        let PipelineSlot::HeldBack(pending) =
            std::mem::replace(&mut self.slots[position], PipelineSlot::InFlight { counter_ids })
        else {
            return;
        };
        self.held_back -= 1;
        let number = self.first + position as u64;
        let engine = session.engine.clone();
        self.in_flight.push(Box::pin(async move {
            let answer = pending.answer(engine, protocol).await;
            drop(permit);
            (number, answer)
        }));
    }

    /// Waits for one reply, appends those that are next in order, and starts calls that were held back.
    async fn next(&mut self, session: &Session, replies: &mut Replies) {
        if let Some((number, answer)) = self.in_flight.next().await
            && let Some(slot) = usize::try_from(number - self.first).ok().and_then(|at| self.slots.get_mut(at))
        {
            *slot = PipelineSlot::Answered(answer);
        }
        while let Some(PipelineSlot::Answered(answer)) = self.slots.front() {
            replies.append(answer);
            self.slots.pop_front();
            self.first += 1;
        }
        if self.held_back > 0 {
            // Held-back commands use the current protocol: a command that changes it waits for all before it.
            (0..self.slots.len()).for_each(|position| self.try_begin(position, session, replies.protocol));
        }
    }
}

impl PipelineSlot {
    /// The counters that later commands must wait for.
    fn counter_ids(&self) -> &[u64] {
        match self {
            Self::Answered(_) => &[],
            Self::InFlight { counter_ids } => counter_ids,
            Self::HeldBack(pending) => pending.counter_ids(),
        }
    }
}

/// Maximum number of commands of one connection that are in flight or held back.
const MAX_SLOTS: usize = 128;

/// Calls that all connections of the wire may have in flight, beyond one each. Enough to keep a server busy that is a
/// millisecond away, and few enough that it answers the last of them well before its deadline.
pub(crate) const MAX_IN_FLIGHT: usize = 256;
