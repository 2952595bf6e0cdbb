//! Pending commands: parsed and authorised commands that need a call to a remote store.
//!
//! A pending command owns its arguments, so that the input buffer can be reused while the call is in flight.

use smallvec::SmallVec;

use super::{CommandError, Replies, Session, delete, limits, take, throttle};
use crate::{
    engine::{Engine, INLINE_DOMAIN},
    resp::reply::Protocol,
    telemetry::Trace,
};

/// A command that waits for the store.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The counters that the command uses.
    counter_ids: SmallVec<[u64; 1]>,
    what: PendingKind,
    trace: Trace,
}

#[derive(Debug)]
enum PendingKind {
    Throttle { key: Box<str>, terms: throttle::ThrottleRequest },
    Limits { domain: Box<str>, subjects: limits::OwnedSubjects, terms: limits::LimitRequest },
    Take(take::OwnedTake),
    Delete { keys: Vec<Box<str>> },
}

impl Pending {
    pub(super) fn throttle(session: &Session, key: &str, terms: throttle::ThrottleRequest) -> Self {
        let what = PendingKind::Throttle { key: key.into(), terms };
        let counter_ids = SmallVec::from_buf([session.engine.throttle_counter_id(key)]);
        Self { counter_ids, what, trace: Trace::none() }
    }

    pub(super) fn limits(
        session: &Session,
        domain: &str,
        subjects: &limits::Subjects<'_>,
        terms: limits::LimitRequest,
    ) -> Self {
        let mut counter_ids = SmallVec::new();
        for descriptor in subjects.descriptors() {
            session.engine.add_counter_ids(domain, descriptor, &mut counter_ids);
        }
        let what = PendingKind::Limits { domain: domain.into(), subjects: subjects.to_owned(), terms };
        Self { counter_ids, what, trace: Trace::none() }
    }

    pub(super) fn take(session: &Session, take: take::OwnedTake) -> Self {
        let counter_ids = SmallVec::from_buf([session.engine.inline_counter_id(take.key())]);
        Self { counter_ids, what: PendingKind::Take(take), trace: Trace::none() }
    }

    pub(super) fn delete(keys: &[&str]) -> Self {
        let what = PendingKind::Delete { keys: keys.iter().map(|key| (*key).into()).collect() };
        Self { counter_ids: SmallVec::new(), what, trace: Trace::none() }
    }

    /// Whether `counter_ids` does not order the command. Later commands wait for its reply.
    pub(crate) fn is_unordered(&self) -> bool {
        matches!(self.what, PendingKind::Delete { .. })
    }

    /// Attaches the trace that the store call belongs to.
    pub(super) fn with_trace(self, trace: Trace) -> Self {
        Self { trace, ..self }
    }

    /// Commands that share an id may use the same counter, so they are decided in the order received.
    pub(crate) fn counter_ids(&self) -> &SmallVec<[u64; 1]> {
        &self.counter_ids
    }

    /// Calls the store and returns the encoded reply.
    pub(crate) async fn answer(self, engine: Engine, protocol: Protocol) -> Vec<u8> {
        let mut replies = Replies::with_protocol(protocol);
        if let Err(CommandError(line)) = self.trace.around(self.what.ask(&engine, &mut replies)).await {
            replies.error(&line);
        }
        replies.into_bytes()
    }
}

impl PendingKind {
    async fn ask(&self, engine: &Engine, replies: &mut Replies) -> Result<(), CommandError> {
        match self {
            Self::Throttle { key, terms } => {
                let decided = engine.throttle(key, terms.numbers, terms.quantity).await;
                terms.write_reply(replies, &decided.map_err(CommandError::because)?);
            }
            Self::Limits { domain, subjects, terms } => {
                let subjects = subjects.borrowed();
                let subjects = terms.subjects(&subjects);
                let answered = engine.decide_with(&terms.request(domain, &subjects), terms.terms()).await;
                terms.write_reply(replies, &answered.map_err(CommandError::because)?, &subjects)?;
            }
            Self::Take(take) => {
                let subjects = [take.subject()];
                let answered = engine.decide(&take.terms().request(INLINE_DOMAIN, &subjects)).await;
                take.terms().write_reply(replies, &answered.map_err(CommandError::because)?, &subjects)?;
            }
            Self::Delete { keys } => {
                let reset = engine.reset_throttles(keys).await;
                replies.integer(delete::count(reset.map_err(CommandError::because)?));
            }
        }
        Ok(())
    }
}
