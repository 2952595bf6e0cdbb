//! Prepaid keys: decisions by allotments and remembered denials, and the calls of their holders.
//!
//! ```text
//!   take ─▶ here: allotment or cached denial ─▶ Decision, no call
//!             └ ask: waits for the call in flight, or makes one (`merge`)
//!                      └ a holder's call: report + takes + grant, one script (`allot.lua`)
//!   timer, every half turn: report what was used, return what is not needed
//! ```
//!
//! At most one call of a key is in flight, because all of them go through [`merge`](super::merge).

use std::{
    collections::HashSet,
    sync::Arc,
    task::Waker,
    time::{Duration, Instant},
};

use ratekeeper_core::{
    Ask, Decision, Source, StoreError, Take, Verb,
    store_api::{AllotmentCall, AllotmentStep},
};
use tokio::time::{sleep, timeout};

use super::{
    Failure, RedisStore,
    ask::MAX_MIGRATIONS,
    keys::NamedKey,
    merge::{JoinedNamed, Turn, Waiting, runs_of},
    reply_slot::reply_slot,
};
use crate::{
    allotment::{Action, LocalClock, LocalTime},
    hot_keys::WaitingRequest,
    ledger::RequestKey,
    link::CallError,
    policies::{RedisPolicy, Version},
    prepaid_keys::Here,
    reply::{self, AllotReply, Known, Reply},
    request::{self, Run},
};

impl RedisStore {
    /// Answers a take in this process, if the key has an allotment or a remembered denial.
    #[inline]
    pub(super) fn answer_here(&self, ask: &Ask<'_, RedisPolicy>, take: &Take) -> Option<Decision> {
        if !ask.policy.is_prepaid() {
            return None;
        }
        let is_patient = take.max_wait.as_micros() > 0;
        // Read first, so that no permit is used that had ended.
        let now = LocalClock::now();
        if let Some(decision) = self.inner.prepaid.take_open(ask.policy, ask.key, ask.cost, is_patient, now) {
            return Some(decision);
        }
        self.answer_locked(ask, is_patient, now)
    }

    /// Answers a take by the holder of its key.
    #[inline(never)]
    fn answer_locked(&self, ask: &Ask<'_, RedisPolicy>, is_patient: bool, now: LocalTime) -> Option<Decision> {
        match self.inner.prepaid.take(ask.policy, ask.key, ask.cost, is_patient, now) {
            Here::Decided { decision, refill } => {
                if let Some(name) = refill {
                    self.call_in_background(name);
                }
                Some(decision)
            }
            Here::Ask => None,
        }
    }

    /// Decides a request of a prepaid key that is not answered in this process.
    pub(super) async fn decide_prepaid(
        &self,
        ask: &Ask<'_, RedisPolicy>,
        key: NamedKey,
        verb: Verb,
        deadline: Instant,
    ) -> Result<Decision, StoreError> {
        let is_take = matches!(verb, Verb::Take(_));
        if is_take {
            self.track(ask, &key.version, &key.name);
        } else if let Some(decision) = self.give_back_here(&key.request(), &verb) {
            return Ok(decision);
        }
        let decided = match self.join_named(&key.version, &key.name, key.cost, &verb, deadline) {
            JoinedNamed::First { turn } => {
                let mut turn = Turn::new(self, &key.name, turn);
                self.decide_first(&key.request(), &verb, deadline, &mut turn).await
            }
            JoinedNamed::Queued(decision) => match decision.await {
                Some(decided) => decided,
                None => self.decide_without_store(&[key.request()], &verb, Failure::NotSent),
            },
            JoinedNamed::Full => self.decide_without_store(&[key.request()], &verb, Failure::TooManyWaiting),
        };
        if !is_take {
            // A denial may have been remembered meanwhile, from before the verb was executed.
            let _ = self.give_back_here(&key.request(), &Verb::Peek);
        }
        decided
    }

    /// Decides a request of a key without a call in flight: with a holder's call if the key is hot.
    async fn decide_first(
        &self,
        request: &RequestKey<'_>,
        verb: &Verb,
        deadline: Instant,
        turn: &mut Turn<'_>,
    ) -> Result<Decision, StoreError> {
        let asked = LocalClock::now();
        let runs: Vec<Run> = Run::of(request.cost, verb).into_iter().collect();
        let call = match verb {
            Verb::Take(_) | Verb::Peek => self.holders_call(request.name, &runs),
            _ => None,
        };
        if let Some(call) = call {
            let (reply, receiver) = reply_slot();
            let version = Arc::clone(request.version);
            let waiting = WaitingRequest { version, cost: request.cost, verb: *verb, deadline, reply };
            let name: Arc<[u8]> = request.name.into();
            turn.is_answered = self.send_allotted(&name, turn.turn, vec![waiting], call, request.version).await;
            return match receiver.await {
                Some(decided) => decided,
                None => self.decide_without_store(&[*request], verb, Failure::NotSent),
            };
        }
        let decided = self.decide_alone(&[*request], verb, deadline).await;
        turn.ends_with(&decided);
        if let Ok(decision) = &decided {
            self.note_decision(request, verb, asked, decision);
        }
        decided
    }

    /// Makes a holder's call without a request, or with those that wait for the call in flight.
    async fn call_as_holder(self, name: Arc<[u8]>) {
        let Some(version) = self.inner.prepaid.with(&name, |key| Arc::clone(key.version())) else { return };
        let deadline = Instant::now() + self.inner.config.link.deadline;
        match self.join_named(&version, &name, 0, &Verb::Peek, deadline) {
            JoinedNamed::First { turn } => {
                let mut turn = Turn::new(&self, &name, turn);
                if let Some(call) = self.holders_call(&name, &[]) {
                    turn.is_answered = self.send_allotted(&name, turn.turn, Vec::new(), call, &version).await;
                }
            }
            JoinedNamed::Queued(decision) => _ = decision.await,
            JoinedNamed::Full => {}
        }
    }

    /// Tracks a prepaid key whose request goes to the store.
    fn track(&self, ask: &Ask<'_, RedisPolicy>, version: &Arc<Version>, name: &[u8]) {
        // A manual clock does not move while allotments end by this process's clock.
        if version.prepaid.is_some() && self.inner.config.clock.is_none() {
            self.inner.prepaid.track(ask.policy, version, ask.key, name, ask.cost);
        }
    }

    /// Gives permits back to an allotment, if the use was not reported yet. Returned permits clear a remembered denial in
    /// any case.
    fn give_back_here(&self, request: &RequestKey<'_>, verb: &Verb) -> Option<Decision> {
        request.version.prepaid.as_ref()?;
        let at = match verb {
            Verb::Undo { at, .. } | Verb::Refund { at: Some(at) } => Some(*at),
            _ => None,
        };
        self.inner.prepaid.with(request.name, |key| {
            key.clear_denial();
            match verb {
                Verb::Block { .. } | Verb::Reset => key.return_all(),
                _ => {}
            }
            let at = at?;
            key.give_back(request.cost, at).then(|| key.status())
        })?
    }

    /// Notes what the store has decided about a key outside the protocol.
    fn note_decision(&self, request: &RequestKey<'_>, verb: &Verb, asked: LocalTime, decision: &Decision) {
        let is_denied = !decision.is_allowed() && decision.source == Source::Store;
        if let Verb::Take(take) = verb
            && take.max_wait.as_micros() == 0
            && is_denied
        {
            self.inner.prepaid.with(request.name, |key| key.denied_by_store(decision, request.cost, asked));
        }
    }

    /// Answers the requests that an allotment or a remembered denial covers by now, and returns the others.
    pub(super) fn serve_waiting(&self, name: &[u8], requests: Vec<Waiting>) -> Vec<Waiting> {
        let serve = |request: &Waiting| match request.verb {
            Verb::Take(take) => {
                let is_patient = take.max_wait.as_micros() > 0;
                self.inner.prepaid.with(name, |key| key.serve(request.cost, is_patient)).unwrap_or(Here::Ask)
            }
            _ => Here::Ask,
        };
        let mut others = Vec::new();
        for request in requests {
            // No request overtakes one that came before it.
            let here = if others.is_empty() { serve(&request) } else { Here::Ask };
            match here {
                Here::Decided { decision, .. } => request.answer(Ok(decision)),
                Here::Ask => others.push(request),
            }
        }
        others
    }

    /// The call of a prepaid key's holder, if it takes part in the protocol.
    pub(super) fn holders_call(&self, name: &[u8], runs: &[Run]) -> Option<HoldersCall<'_>> {
        let largest = runs.iter().map(|run| run.cost).max().unwrap_or_default();
        let call = self.inner.prepaid.with(name, |key| key.call(largest))??;
        Some(HoldersCall { store: self, name: name.into(), call, is_done: false })
    }

    /// Sends a holder's call with the takes and peeks that wait. Returns whether the store answered.
    pub(super) async fn send_allotted(
        &self,
        name: &Arc<[u8]>,
        turn: u64,
        requests: Vec<Waiting>,
        mut call: HoldersCall<'_>,
        version: &Arc<Version>,
    ) -> bool {
        let inner = &*self.inner;
        let deadline = Instant::now() + inner.config.link.deadline;
        let oldest = requests.iter().map(|request| self.not_passed(request.deadline)).min().unwrap_or(deadline);
        let mark = inner.fallback.ledger.mark();
        let runs = runs_of(&requests);
        let asked = self.ask_allotted(version, name, &requests, &runs, &call.call, oldest).await;
        let failure = match asked {
            Ok((AllotmentStep { decisions, reply: Some(reply), .. }, known)) => {
                inner.counters.allotment_calls.add_one();
                inner.counters.merged_requests.add(requests.len() as u64);
                inner.counters.decided_by_store.add(requests.len() as u64);
                inner.fallback_log.decided_by_store();
                if known == Known::Lost {
                    inner.counters.allotment_unknown.add_one();
                }
                if reply.granted < call.call.want {
                    inner.counters.allotment_short.add_one();
                }
                let granted = requests.iter().zip(&decisions).filter(|(_, decision)| decision.is_allowed());
                let granted = granted.map(|(request, _)| request.cost).max().unwrap_or_default();
                let report = std::slice::from_ref(&reply.status);
                let key = RequestKey { version, name, cost: granted.max(reply.granted) };
                let is_sound = inner.fallback.observe_merged(&key, report, mark);
                let refused = requests.iter().zip(&decisions).filter(|(request, decision)| {
                    !decision.is_allowed() && matches!(request.verb, Verb::Take(take) if take.max_wait.as_micros() == 0)
                });
                let refused = refused.map(|(request, _)| request.cost).min();
                call.is_done = true;
                let is_timed = inner.prepaid.with(name, |key| {
                    key.reply(call.call.seq, &reply, refused, is_sound);
                    key.holds() && !std::mem::replace(&mut key.more.is_timed, true)
                });
                if is_timed == Some(true) {
                    self.start_timer(Arc::clone(name));
                }
                let mut callers = Vec::with_capacity(requests.len());
                for (request, decision) in requests.into_iter().zip(decisions) {
                    callers.extend(self.answer(name, request, decision, is_sound));
                }
                callers.into_iter().for_each(Waker::wake);
                return true;
            }
            // A later call has overtaken this one: nothing was done.
            Ok(_) => {
                inner.counters.allotment_overtaken.add_one();
                Failure::Late
            }
            Err(failure) => failure,
        };
        drop(call);
        let again = self.answer_without_store_if_over(name, requests, oldest, failure);
        inner.hot_keys.put_back(name, turn, again);
        false
    }

    async fn ask_allotted(
        &self,
        version: &Arc<Version>,
        name: &[u8],
        requests: &[Waiting],
        runs: &[Run],
        call: &AllotmentCall,
        deadline: Instant,
    ) -> Result<(AllotmentStep, Known), Failure> {
        let Some(script) = &version.scripts.allot else { return Err(Failure::Strange) };
        let key = RequestKey { version, name, cost: 1 };
        self.charge_first(&[key], &Verb::Take(Take::now()), deadline).await?;
        for _ in 0..MAX_MIGRATIONS {
            let (subject, numbers) = (version.tagged(), request::allot(version.tagged(), call, runs));
            let called = self.call_script(script, &[subject], &[name], numbers, deadline).await;
            if let Err(Failure::Call(CallError::Unknown { .. })) = called {
                self.inner.counters.ambiguous_calls.add((requests.len() as u64).saturating_sub(1));
            }
            let value = called?;
            let asked = requests.iter().map(|request| (request.cost, &request.verb));
            match reply::to_allot(version.tagged(), call, asked, &value) {
                AllotReply::Done(step, known) => {
                    self.ensure_definition(version);
                    return Ok((step, known));
                }
                AllotReply::Other(Reply::Late) if Instant::now() < deadline => {}
                AllotReply::Other(Reply::Late) => return Err(Failure::Late),
                AllotReply::Other(Reply::NotOurs { value, now, .. }) => {
                    self.migrate_state(version, name, value, now, deadline).await?;
                }
                AllotReply::Other(_) => return Err(Failure::Strange),
            }
        }
        Err(Failure::Late)
    }

    /// Makes a holder's call without a request: to refill, to report or to return.
    fn call_in_background(&self, name: Arc<[u8]>) {
        self.spawn(self.clone().call_as_holder(name));
    }

    /// Starts the timer for a key that holds permits.
    fn start_timer(&self, name: Arc<[u8]>) {
        let mut timed = self.inner.timed_keys.lock();
        timed.names.insert(name);
        if !std::mem::replace(&mut timed.is_running, true) {
            drop(timed);
            self.spawn(self.clone().run_timer());
        }
    }

    /// Reports and returns permits of all keys that hold any, until none does.
    async fn run_timer(self) {
        let inner = &*self.inner;
        loop {
            let names = inner.timed_keys.lock().names.clone();
            let turns = names.iter().filter_map(|name| inner.prepaid.with(name, |key| key.turn()));
            let tick = turns.min().map_or(MAX_TICK, |turn| turn.as_duration() / 2).clamp(MIN_TICK, MAX_TICK);
            sleep(tick).await;
            let jumped = inner.local_clock.jumped();
            for name in names {
                let action = inner.prepaid.with(&name, |key| {
                    if jumped {
                        key.forget();
                    }
                    let action = key.tick();
                    key.more.is_timed = action != Action::Idle;
                    action
                });
                if let Some(Action::Report | Action::Return) = action {
                    self.call_in_background(name);
                }
            }
            let mut timed = inner.timed_keys.lock();
            timed.names.retain(|name| inner.prepaid.with(name, |key| key.more.is_timed) == Some(true));
            if timed.names.is_empty() {
                timed.is_running = false;
                return;
            }
        }
    }

    /// Returns the permits that this process holds in advance, so that others can use them: for the end of a process. Waits
    /// for the store, 100 ms at most. What is not returned is charged when it ends.
    pub async fn return_allotments(&self) {
        let calls = self.inner.prepaid.holding().into_iter().map(|name| {
            self.inner.prepaid.with(&name, |key| key.return_all());
            self.clone().call_as_holder(name)
        });
        let _ = timeout(RETURN_WITHIN, futures_util::future::join_all(calls)).await;
    }
}

/// A holder's call that is in flight. If it is dropped before its reply was read, the holder knows that none will be.
pub(super) struct HoldersCall<'a> {
    store: &'a RedisStore,
    name: Arc<[u8]>,
    call: AllotmentCall,
    is_done: bool,
}

impl Drop for HoldersCall<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.store.inner.prepaid.with(&self.name, |key| key.failed(self.call.seq));
        }
    }
}

/// The keys that the timer looks after.
#[derive(Debug, Default)]
pub(super) struct TimedKeys {
    names: HashSet<Arc<[u8]>>,
    is_running: bool,
}

const MIN_TICK: Duration = Duration::from_millis(1);
const MAX_TICK: Duration = Duration::from_millis(50);
/// How long a process that ends waits for the store.
const RETURN_WITHIN: Duration = Duration::from_millis(100);
