//! Pending commands: parsed and authorised commands that need a call to a remote store.
//!
//! A pending command owns its arguments, so that the input buffer can be reused while the call is in flight.

use super::{CommandError, Replies, Session, delete, limits, throttle};
use crate::{engine::Engine, resp::reply::Protocol, telemetry::Trace};

/// A command that waits for the store.
#[derive(Debug)]
pub(crate) struct Pending {
    counter_id: u64,
    what: PendingKind,
    trace: Trace,
}

#[derive(Debug)]
enum PendingKind {
    Throttle { key: Box<str>, terms: throttle::ThrottleRequest },
    Limits { domain: Box<str>, key: Box<str>, terms: limits::LimitRequest },
    Delete { keys: Vec<Box<str>> },
}

impl Pending {
    pub(super) fn throttle(session: &Session, key: &str, terms: throttle::ThrottleRequest) -> Self {
        let what = PendingKind::Throttle { key: key.into(), terms };
        Self { counter_id: session.engine.throttle_counter_id(key), what, trace: Trace::none() }
    }

    pub(super) fn limits(session: &Session, domain: &str, key: &str, terms: limits::LimitRequest) -> Self {
        let counter_id = session.engine.counter_id(domain, key);
        let what = PendingKind::Limits { domain: domain.into(), key: key.into(), terms };
        Self { counter_id, what, trace: Trace::none() }
    }

    pub(super) fn delete(keys: &[&str]) -> Self {
        let what = PendingKind::Delete { keys: keys.iter().map(|key| (*key).into()).collect() };
        Self { counter_id: 0, what, trace: Trace::none() }
    }

    /// Whether the command uses several counters, so that `counter_id` does not order it. Later commands wait for its
    /// reply.
    pub(crate) fn has_several_counters(&self) -> bool {
        matches!(self.what, PendingKind::Delete { .. })
    }

    /// Attaches the trace that the store call belongs to.
    pub(super) fn with_trace(self, trace: Trace) -> Self {
        Self { trace, ..self }
    }

    /// Commands with the same id may use the same counter, so they are decided in the order received.
    pub(crate) fn counter_id(&self) -> u64 {
        self.counter_id
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
            Self::Limits { domain, key, terms } => {
                let subjects = [terms.subject(key)];
                let answered = engine.decide(&terms.request(domain, &subjects)).await;
                terms.write_reply(replies, &answered.map_err(CommandError::because)?)?;
            }
            Self::Delete { keys } => {
                let reset = engine.reset_throttles(keys).await;
                replies.integer(delete::count(reset.map_err(CommandError::because)?));
            }
        }
        Ok(())
    }
}
