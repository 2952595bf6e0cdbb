//! What became of a call: the one place that reads error replies.
//!
//! | reply | carried out? | then |
//! |---|---|---|
//! | `MOVED`, `ASK` | no | followed |
//! | `NOSCRIPT` | no | the whole script is sent, once |
//! | `READONLY` | no | the connection is given up, the primary looked for, one more try |
//! | `LOADING`, `BUSY`, `MASTERDOWN` | no | the node counts as sick |
//! | `TRYAGAIN` | no | asked again after a moment, while there is time |
//! | `CLUSTERDOWN`, `OOM`, `MISCONF`, `NOREPLICAS`, too many clients | no | the caller's policy |
//! | any other error | no effect, since our scripts write once and last | loud; never again |
//! | none: time is up, connection lost, nonsense received | **unknown** | never sent again |

use std::time::{Duration, Instant};

use redis::{RedisResult, ServerError, Value};

use super::error::NotRun;

/// What became of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fate {
    Answered(Answer),
    NotRun(NotRun),
    /// The script is not known there.
    NoScript,
    /// Another node answers for the key.
    Elsewhere(Redirect),
    Refused(Refusal),
    /// Sent, perhaps; answered, never.
    Unknown {
        waited: Duration,
    },
}

/// An answer, and how long it was on its way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) value: Value,
    pub(super) asked: Instant,
    pub(super) answered: Instant,
}

/// An error that asking again would not change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Refusal {
    pub(super) code: String,
    pub(super) message: String,
}

/// Where the key is to be found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Redirect {
    pub(super) slot: u16,
    /// `host:port` as the node wrote it.
    pub(super) to: String,
    /// For this call only (`ASK`), or for good (`MOVED`).
    pub(super) is_for_once: bool,
}

impl Fate {
    /// Reads what came back. `asked` is when it was sent.
    pub(super) fn of(reply: RedisResult<Value>, asked: Instant) -> Self {
        let answered = Instant::now();
        let error = match reply {
            Ok(Value::ServerError(error)) => Ok(error),
            Ok(value) => return Self::Answered(Answer { value, asked, answered }),
            Err(error) => ServerError::try_from(error),
        };
        match error {
            Ok(error) => Self::of_error(error.code(), error.details().unwrap_or_default()),
            // Everything else befalls a call after it was handed over: nobody can tell whether it left.
            Err(_) => Self::Unknown { waited: answered.saturating_duration_since(asked) },
        }
    }

    fn of_error(code: &str, message: &str) -> Self {
        Self::NotRun(match code {
            "NOSCRIPT" => return Self::NoScript,
            "MOVED" | "ASK" => return Self::redirect(code, message),
            "READONLY" => NotRun::ReadOnly,
            "LOADING" => NotRun::Loading,
            "BUSY" => NotRun::Busy,
            "MASTERDOWN" => NotRun::PrimaryDown,
            "CLUSTERDOWN" => NotRun::ClusterDown,
            "TRYAGAIN" => NotRun::TryAgain,
            "OOM" => NotRun::OutOfMemory,
            "MISCONF" => NotRun::CannotSave,
            "NOREPLICAS" => NotRun::TooFewReplicas,
            "ERR" if message.starts_with(TOO_MANY_CLIENTS) => NotRun::TooManyClients,
            _ => return Self::refused(code, message),
        })
    }

    fn redirect(code: &str, message: &str) -> Self {
        let read = || {
            let (slot, to) = message.split_once(' ')?;
            // A name may follow the address, for clients that want to verify certificates.
            let to = to.split(' ').next()?.to_owned();
            Some(Redirect { slot: slot.parse().ok()?, to, is_for_once: code == "ASK" })
        };
        read().map_or_else(|| Self::refused(code, message), Self::Elsewhere)
    }

    fn refused(code: &str, message: &str) -> Self {
        Self::Refused(Refusal { code: code.into(), message: message.into() })
    }
}

/// Also `max number of clients + cluster connections reached`.
const TOO_MANY_CLIENTS: &str = "max number of clients";

#[cfg(test)]
mod tests;
