//! Requests in order against a store whose clock is the file.

use tollgate_core::{Ask, Carry, Decision, Policy, Store, Verb};
use tollgate_memory::{InstalledPolicy, ManualClock, MemoryConfig, MemoryStore, Stats};

use super::{
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
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
    policy: InstalledPolicy,
    takes: Takes,
}

impl Replay {
    pub(crate) fn new(policy: Policy, budget_mib: u32, has_ops: bool) -> Result<Self, Failure> {
        let clock = ManualClock::default();
        let bytes = usize::try_from(u64::from(budget_mib) << 20).unwrap_or(usize::MAX);
        let store = MemoryStore::with(MemoryConfig::default().budget_bytes(bytes), clock.clone());
        let policy = store.install(policy, Carry::Keep).map_err(Failure::Undecided)?;
        Ok(Self { store, clock, policy, takes: Takes::new(has_ops) })
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

    /// What the store has to say about itself.
    pub(crate) fn stats(&self) -> Stats {
        self.store.stats()
    }

    #[inline]
    fn answer(
        &mut self,
        request: Request<'_>,
        hear: &mut impl FnMut(Answered<'_>) -> Result<(), Failure>,
    ) -> Result<(), Trouble> {
        let verb = self.takes.verb(&request).map_err(Trouble::Request)?;
        self.clock.set(request.at);
        let ask = Ask { policy: &self.policy, key: request.key };
        let decision =
            self.store.decide_now(&[ask], &verb).map_err(|error| Trouble::Else(Failure::Undecided(error)))?;
        self.takes.note(&request, &decision);
        hear(Answered { request, verb: &verb, decision: &decision }).map_err(Trouble::Else)
    }
}

enum Trouble {
    /// About the current line, whose number is known outside.
    Request(RequestProblem),
    Else(Failure),
}
