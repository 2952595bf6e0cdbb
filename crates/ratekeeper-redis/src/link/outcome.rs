//! Outcome of a call: the only place that interprets error replies.
//!
//! | reply | executed? | then |
//! |---|---|---|
//! | `MOVED`, `ASK` | no | the redirect is followed |
//! | `NOSCRIPT` | no | the script is sent in full, once |
//! | `READONLY` | no | reconnect to the primary, one more attempt |
//! | `LOADING`, `BUSY`, `MASTERDOWN` | no | a failure for the circuit breaker |
//! | `TRYAGAIN` | no | sent again after a pause, until the deadline |
//! | `CLUSTERDOWN`, `OOM`, `MISCONF`, `NOREPLICAS`, too many clients | no | an error; rules decide by `on_store_failure` |
//! | any other error | no effect: our scripts write once, at the end | an error; never sent again |
//! | none: deadline passed, connection lost, malformed reply | **unknown** | never sent again |

use std::time::{Duration, Instant};

use redis::{RedisResult, ServerError, Value};

use super::error::NotExecuted;

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallOutcome {
    Answered(TimedReply),
    NotExecuted(NotExecuted),
    /// The server has not cached the script.
    NoScript,
    /// Another node owns the key.
    Redirected(Redirect),
    Refused(ErrorReply),
    /// Possibly sent, and not answered.
    Unknown {
        waited: Duration,
    },
}

/// A reply, with the instants of the request and of the reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimedReply {
    pub(super) value: Value,
    pub(super) asked: Instant,
    pub(super) answered: Instant,
}

/// An error reply that another attempt would not change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ErrorReply {
    pub(super) code: String,
    pub(super) message: String,
}

/// A redirect to the node that owns the key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Redirect {
    pub(super) slot: u16,
    /// `host:port` as the node wrote it.
    pub(super) to: String,
    /// `ASK`, for this call only; else `MOVED`.
    pub(super) is_ask: bool,
}

impl CallOutcome {
    /// Interprets a reply to a call that was sent at `asked`.
    pub(super) fn of(reply: RedisResult<Value>, asked: Instant) -> Self {
        let answered = Instant::now();
        let error = match reply {
            Ok(Value::ServerError(error)) => Ok(error),
            Ok(value) => return Self::Answered(TimedReply { value, asked, answered }),
            Err(error) => ServerError::try_from(error),
        };
        match error {
            Ok(error) => Self::of_error(error.code(), error.details().unwrap_or_default()),
            // Every other error occurs after the command was handed to the connection, so it may have been sent.
            Err(_) => Self::Unknown { waited: answered.saturating_duration_since(asked) },
        }
    }

    fn of_error(code: &str, message: &str) -> Self {
        Self::NotExecuted(match code {
            "NOSCRIPT" => return Self::NoScript,
            "MOVED" | "ASK" => return Self::redirect(code, message),
            "READONLY" => NotExecuted::ReadOnly,
            "LOADING" => NotExecuted::Loading,
            "BUSY" => NotExecuted::Busy,
            "MASTERDOWN" => NotExecuted::PrimaryDown,
            "CLUSTERDOWN" => NotExecuted::ClusterDown,
            "TRYAGAIN" => NotExecuted::TryAgain,
            "OOM" => NotExecuted::OutOfMemory,
            "MISCONF" => NotExecuted::CannotSave,
            "NOREPLICAS" => NotExecuted::TooFewReplicas,
            "ERR" if message.starts_with(TOO_MANY_CLIENTS) => NotExecuted::TooManyClients,
            _ => return Self::refused(code, message),
        })
    }

    fn redirect(code: &str, message: &str) -> Self {
        let read = || {
            let (slot, to) = message.split_once(' ')?;
            // A host name may follow the address, for verification of certificates.
            let to = to.split(' ').next()?.to_owned();
            Some(Redirect { slot: slot.parse().ok()?, to, is_ask: code == "ASK" })
        };
        read().map_or_else(|| Self::refused(code, message), Self::Redirected)
    }

    fn refused(code: &str, message: &str) -> Self {
        Self::Refused(ErrorReply { code: code.into(), message: message.into() })
    }
}

/// Also `max number of clients + cluster connections reached`.
const TOO_MANY_CLIENTS: &str = "max number of clients";

#[cfg(test)]
mod tests;
