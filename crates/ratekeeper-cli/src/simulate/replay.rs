//! Replay: requests in order against a store that is driven by the times in the file.

use ratekeeper_core::{Decision, Verb};

use super::{
    backend::Backend,
    history::TakeHistory,
    progress::Progress,
    requests::{RequestLine, Requests},
};
use crate::report::{Failure, RequestProblem};

/// A request with its decision.
#[derive(Clone, Copy)]
pub(crate) struct Decided<'a> {
    pub(crate) request: RequestLine<'a>,
    /// As in [`Ask::cost`](ratekeeper_core::Ask::cost): for a settle, the cost of the reservation.
    pub(crate) cost: u64,
    pub(crate) verb: &'a Verb,
    pub(crate) decision: &'a Decision,
}

/// A replay of one policy in one store.
pub(crate) struct Replay {
    backend: Backend,
    takes: TakeHistory,
}

impl Replay {
    pub(crate) fn new(backend: Backend, has_ops: bool) -> Self {
        Self { backend, takes: TakeHistory::new(has_ops) }
    }

    /// Decides every request of the file and passes each decision to `on_decision`.
    pub(crate) fn all(
        &mut self,
        requests: &mut Requests,
        mut on_decision: impl FnMut(Decided<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let progress = Progress::of(requests);
        while let Some(request) = requests.next()? {
            let number = request.number;
            match self.decide(request, &mut on_decision) {
                Ok(()) => {}
                Err(ReplayError::Request(problem)) => return Err(requests.failure(problem)),
                Err(ReplayError::Failure(failure)) => return Err(failure),
            }
            progress.at(number, requests);
        }
        Ok(())
    }

    /// Deletes the keys of this run, and prints warnings about the store.
    pub(crate) fn clean_up(&mut self) {
        self.backend.clean_up();
    }

    #[inline]
    fn decide(
        &mut self,
        request: RequestLine<'_>,
        on_decision: &mut impl FnMut(Decided<'_>) -> Result<(), Failure>,
    ) -> Result<(), ReplayError> {
        let (cost, verb) = self.takes.verb(&request).map_err(ReplayError::Request)?;
        let decided = self.backend.decide(request.key, cost, &verb, &request.terms, request.at);
        let decision = decided.map_err(ReplayError::Failure)?;
        self.takes.add(&request, &decision);
        on_decision(Decided { request, cost, verb: &verb, decision: &decision }).map_err(ReplayError::Failure)
    }
}

enum ReplayError {
    /// About the current line; the caller adds its number.
    Request(RequestProblem),
    Failure(Failure),
}
