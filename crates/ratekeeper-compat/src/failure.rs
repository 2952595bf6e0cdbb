//! Failure of a script call, and the error that callers get for it.

use ratekeeper_core::StoreError;
use ratekeeper_redis::link::CallError;

/// A script call without a result.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// The call had no reply, or an error reply.
    Call(CallError),
    /// The script ran after its deadline, and did nothing.
    Late,
    /// A reply that none of the scripts returns.
    UnexpectedReply,
}

impl From<CallError> for CallFailure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<CallFailure> for StoreError {
    fn from(failure: CallFailure) -> Self {
        let address = "the server".to_owned();
        match failure {
            CallFailure::Call(error) => error.into(),
            CallFailure::Late => {
                Self::Unreachable { address, cause: "the script ran after its deadline, and did nothing".into() }
            }
            CallFailure::UnexpectedReply => {
                Self::Refused { address, reason: "a reply that no script of ours gives".to_owned() }
            }
        }
    }
}
