//! A command whose answer a store far away has to be asked for: all that is needed to ask, and to say the answer.

use super::{Refused, Replies, Session, delete, limits, throttle};
use crate::{engine::Engine, resp::reply::Protocol, telemetry::Trace};

/// A command that has been read and let in, and waits for the store.
#[derive(Debug)]
pub(crate) struct Waiting {
    lane: u64,
    what: What,
    trace: Trace,
}

#[derive(Debug)]
enum What {
    Throttle { key: Box<str>, terms: throttle::Terms },
    Limits { domain: Box<str>, key: Box<str>, terms: limits::Terms },
    Delete { keys: Vec<Box<str>> },
}

impl Waiting {
    pub(super) fn throttle(session: &Session, key: &str, terms: throttle::Terms) -> Self {
        let what = What::Throttle { key: key.into(), terms };
        Self { lane: session.engine.throttle_lane(key), what, trace: Trace::none() }
    }

    pub(super) fn limits(session: &Session, domain: &str, key: &str, terms: limits::Terms) -> Self {
        let lane = session.engine.lane(domain, key);
        let what = What::Limits { domain: domain.into(), key: key.into(), terms };
        Self { lane, what, trace: Trace::none() }
    }

    pub(super) fn delete(keys: &[&str]) -> Self {
        let what = What::Delete { keys: keys.iter().map(|key| (*key).into()).collect() };
        Self { lane: 0, what, trace: Trace::none() }
    }

    /// Whether it is about several counters, so that no lane orders it: what comes after it waits for its answer.
    pub(crate) fn is_about_several(&self) -> bool {
        matches!(self.what, What::Delete { .. })
    }

    /// What is asked for it belongs to this trace.
    pub(super) fn followed_by(self, trace: Trace) -> Self {
        Self { trace, ..self }
    }

    /// Commands of one lane may be about the same counter, and are decided in the order they came in.
    pub(crate) fn lane(&self) -> u64 {
        self.lane
    }

    /// Asks, and gives back the answer as it is sent.
    pub(crate) async fn answer(self, engine: Engine, protocol: Protocol) -> Vec<u8> {
        let mut replies = Replies::speaking(protocol);
        if let Err(Refused(line)) = self.trace.around(self.what.ask(&engine, &mut replies)).await {
            replies.error(&line);
        }
        replies.into_bytes()
    }
}

impl What {
    async fn ask(&self, engine: &Engine, replies: &mut Replies) -> Result<(), Refused> {
        match self {
            Self::Throttle { key, terms } => {
                let decided = engine.throttle(key, terms.numbers, terms.quantity).await;
                terms.tell(replies, &decided.map_err(Refused::because)?);
            }
            Self::Limits { domain, key, terms } => {
                let subjects = [terms.subject(key)];
                let answered = engine.ask(&terms.question(domain, &subjects)).await;
                terms.tell(replies, &answered.map_err(Refused::because)?)?;
            }
            Self::Delete { keys } => {
                let reset = engine.reset_throttles(keys).await;
                replies.integer(delete::count(reset.map_err(Refused::because)?));
            }
        }
        Ok(())
    }
}
