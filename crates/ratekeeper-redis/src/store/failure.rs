//! Failure of a decision by the server, and the error that callers get for it.

use ratekeeper_core::StoreError;

use crate::link::CallError;

/// Why there is no decision.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The call failed.
    Call(CallError),
    /// The script ran after its deadline, and did nothing.
    Late,
    /// The request waited for a call about the same key until its deadline, and was not sent.
    NotSent,
    /// Too many requests wait for calls about their keys.
    TooManyWaiting,
    /// A charge for the key's local grants has failed, and is not due again yet.
    ChargeLater,
    /// The key holds a foreign value.
    NotOurs(Unreadable),
    /// A commit or a cancel of an id that is not known.
    UnknownId,
    /// The reply is none that our scripts return.
    Strange,
}

/// A value under one of our keys that cannot be read.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// The key's name on the server.
    pub(crate) name: String,
    /// Length and first bytes of the value, escaped.
    pub(crate) found: String,
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        let unreachable =
            |address: String, cause: Box<dyn std::error::Error + Send + Sync>| Self::Unreachable { address, cause };
        match failure {
            Failure::Call(error) => error.into(),
            Failure::Late => unreachable("the server".to_owned(), "the script ran too late, and did nothing".into()),
            Failure::NotSent => unreachable(
                "the server".to_owned(),
                "not sent: an earlier call about the same key took until the deadline".into(),
            ),
            Failure::TooManyWaiting => unreachable(
                "the server".to_owned(),
                "not sent: too many requests wait for earlier calls about their keys".into(),
            ),
            Failure::ChargeLater => unreachable(
                "the server".to_owned(),
                "local grants of this key are to be charged first, and the last attempt has failed".into(),
            ),
            Failure::NotOurs(unreadable) => Self::NotOurs { key: unreadable.name, found: unreadable.found },
            Failure::UnknownId => Self::UnknownId,
            Failure::Strange => Self::Refused {
                address: "the server".to_owned(),
                reason: "an answer no script of ours gives".to_owned(),
            },
        }
    }
}

/// An error with its causes.
pub(super) fn with_causes(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
