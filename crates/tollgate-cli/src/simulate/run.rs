//! Requests in order against a store whose clock is the file.

use tollgate_core::{Decision, Verb};

use super::{
    keeper::Keeper,
    progress::Progress,
    requests::{Request, Requests},
    takes::Takes,
};
use crate::report::{Failure, RequestProblem};

/// What was asked and what came of it.
#[derive(Clone, Copy)]
pub(crate) struct Answered<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) verb: &'a Verb,
    pub(crate) decision: &'a Decision,
}

/// A policy in a store of its own.
pub(crate) struct Replay {
    keeper: Keeper,
    takes: Takes,
}

impl Replay {
    pub(crate) fn new(keeper: Keeper, has_ops: bool) -> Self {
        Self { keeper, takes: Takes::new(has_ops) }
    }

    /// Answers every request of the file; `hear` is told each answer.
    pub(crate) fn all(
        &mut self,
        requests: &mut Requests,
        mut hear: impl FnMut(Answered<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let progress = Progress::of(requests);
        while let Some(request) = requests.next()? {
            let number = request.number;
            match self.answer(request, &mut hear) {
                Ok(()) => {}
                Err(Trouble::Request(problem)) => return Err(requests.failure(problem)),
                Err(Trouble::Else(failure)) => return Err(failure),
            }
            progress.at(number, requests);
        }
        Ok(())
    }

    /// Leaves nothing behind, and says what there is to say about the store.
    pub(crate) fn clean_up(&mut self) {
        self.keeper.clean_up();
    }

    #[inline]
    fn answer(
        &mut self,
        request: Request<'_>,
        hear: &mut impl FnMut(Answered<'_>) -> Result<(), Failure>,
    ) -> Result<(), Trouble> {
        let verb = self.takes.verb(&request).map_err(Trouble::Request)?;
        let decision = self.keeper.decide(request.key, &verb, request.at).map_err(Trouble::Else)?;
        self.takes.note(&request, &decision);
        hear(Answered { request, verb: &verb, decision: &decision }).map_err(Trouble::Else)
    }
}

enum Trouble {
    /// About the current line, whose number is known outside.
    Request(RequestProblem),
    Else(Failure),
}
