//! Merged calls: concurrent requests of one key leave in one script call.
//!
//! The first request of a key is sent at once, by its caller. Requests that arrive meanwhile wait in [`HotKeys`]; a task
//! waits for the end of that call, sends them together, and goes on until none is left. It does not depend on the caller,
//! which may have stopped polling. The decisions are those of single calls at
//! the same time, see `lua/merge.lua`.
//!
//! A merged call has the deadline of its oldest request. If the script runs later it charges nothing, and the younger
//! requests are sent again. If the reply is lost, the outcome of all its requests is unknown, and each is decided by its
//! rules' `on_store_failure`.
//!
//! Requests whose deadline passes while they wait are not sent, unless the call before them was answered. Scripts answer
//! in time or not at all, so then this process was delayed, and the time that it lost does not count.

use std::{mem, sync::Arc, task::Waker, time::Instant};

use arc_swap::Guard;
use futures_util::{StreamExt, stream::FuturesOrdered};
use ratekeeper_core::{Ask, Decision, Source, StoreError, Take, Verb};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use super::{
    Failure, RedisStore,
    ask::MAX_MIGRATIONS,
    keys::NamedKey,
    reply_slot::{SlotReceiver, SlotSender, reply_slot},
};
use crate::{
    hot_keys::{Arrival, Batch, HotKeys, NewRequest, WaitingRequest},
    ledger::RequestKey,
    link::{CallError, MOST_GRACE, NotExecuted},
    policies::{RedisPolicy, Version},
    reply::{self, MergedReply, Reply},
    request::{self, Run},
};

/// Where the decision of a waiting request goes.
type ReplySender = SlotSender<Result<Decision, StoreError>>;
/// Signals the end of a caller's call, and whether it was answered.
type EndSender = oneshot::Sender<bool>;
pub(super) type StoreHotKeys = HotKeys<ReplySender, EndSender>;
pub(super) type Waiting = WaitingRequest<ReplySender>;

/// What becomes of a request of one key.
pub(super) enum Joined {
    /// It is sent at once. It has a turn if no other call about the key is to be sent meanwhile.
    Alone { key: NamedKey, turn: Option<u64> },
    /// It leaves with the others that wait.
    Queued(SlotReceiver<Result<Decision, StoreError>>),
    /// Too many requests wait.
    Full,
    /// It concerned a local grant that is not charged yet, and was refunded locally.
    Refunded(Decision),
    /// Its policy is prepaid.
    Prepaid(NamedKey),
}

/// What becomes of a request of a named key.
pub(super) enum JoinedNamed {
    /// No call about the key is in flight: the request is sent at once.
    First {
        turn: u64,
    },
    Queued(SlotReceiver<Result<Decision, StoreError>>),
    Full,
}

impl RedisStore {
    /// Adds a request to those that wait for its key, if a call about the key is in flight.
    pub(super) fn join(&self, ask: &Ask<'_, RedisPolicy>, verb: &Verb, deadline: Instant) -> Joined {
        let (inner, version) = (&*self.inner, ask.policy.load());
        let (name, cost) = (version.keys.name(ask.key), ask.cost);
        if matches!(verb, Verb::Undo { .. } | Verb::Refund { .. } | Verb::Settle { .. }) {
            let request = RequestKey { version: &version, name: &name, cost };
            if inner.fallback.refund(&request, verb, self.now_here()) {
                return Joined::Refunded(inner.fallback.decide(&[request], &Verb::Peek, self.now_here()).0);
            }
        }
        if version.prepaid.is_some() {
            return Joined::Prepaid(NamedKey { version: Guard::into_inner(version), name, cost });
        }
        if !inner.config.merging || version.scripts.merge.is_none() {
            return Joined::Alone { key: NamedKey { version: Guard::into_inner(version), name, cost }, turn: None };
        }
        match self.join_named(&version, &name, cost, verb, deadline) {
            JoinedNamed::First { turn } => {
                let key = NamedKey { version: Guard::into_inner(version), name, cost };
                Joined::Alone { key, turn: Some(turn) }
            }
            JoinedNamed::Queued(decision) => Joined::Queued(decision),
            JoinedNamed::Full => Joined::Full,
        }
    }

    /// Adds a request to those that wait for this key, if a call about it is in flight.
    pub(super) fn join_named(
        &self,
        version: &Arc<Version>,
        name: &[u8],
        cost: u64,
        verb: &Verb,
        deadline: Instant,
    ) -> JoinedNamed {
        let (mut decision, mut ended) = (None, None);
        let waiting = || {
            let (reply, receiver) = reply_slot();
            decision = Some(receiver);
            NewRequest { cost, verb: *verb, deadline, reply }
        };
        let end = || {
            let (end, receiver) = oneshot::channel();
            ended = Some(receiver);
            end
        };
        match self.inner.hot_keys.arrive(name, version, waiting, end) {
            Arrival::Sent { turn } => return JoinedNamed::First { turn },
            Arrival::QueuedFirst { turn } => {
                if let Some(ended) = ended {
                    self.spawn(self.clone().send_after(Arc::from(name), turn, ended));
                }
            }
            Arrival::Queued | Arrival::Full => {}
        }
        decision.map_or(JoinedNamed::Full, JoinedNamed::Queued)
    }

    /// Waits for the end of the call in flight, and sends what waits for this key until nothing is left.
    async fn send_after(self, name: Arc<[u8]>, turn: u64, ended: oneshot::Receiver<bool>) {
        let _end = EndOfSending { store: &self, name: &name, turn };
        // The call in flight began before this.
        let longest = self.inner.config.link.deadline + MOST_GRACE;
        let mut was_answered = match timeout(longest, ended).await {
            Ok(ended) => ended.unwrap_or(false),
            Err(_) => {
                self.inner.hot_keys.take_over(&name, turn);
                false
            }
        };
        let is_awaited = |reply: &ReplySender| !reply.is_closed();
        let expired_at = |was_answered: bool| (!was_answered).then(Instant::now);
        while let Some(departure) = self.inner.hot_keys.next(&name, turn, expired_at(was_answered), is_awaited) {
            for request in departure.expired {
                self.answer_without_store(&name, request, Failure::NotSent);
            }
            let answered = departure.sent.len();
            was_answered = match departure.sent {
                Batch::Merged(requests, _) if requests.first().is_some_and(Waiting::is_prepaid) => {
                    self.send_prepaid(&name, turn, requests).await
                }
                Batch::Merged(requests, runs) if requests.len() > 1 => {
                    self.send_merged(&name, turn, requests, &runs).await
                }
                Batch::Merged(requests, _) | Batch::Barriers(requests) => self.send_alone(&name, requests).await,
            };
            self.let_callers_return(&name, turn, answered).await;
        }
    }

    /// The callers that were just answered run, so that their next requests leave together. A runtime resumes a task that
    /// yields after about 60 others, so one yield is not enough for more callers than that.
    async fn let_callers_return(&self, name: &[u8], turn: u64, answered: usize) {
        let mut before = self.inner.hot_keys.waiting(name, turn);
        let all = before + answered;
        for _ in 0..MAX_YIELDS {
            tokio::task::yield_now().await;
            let waiting = self.inner.hot_keys.waiting(name, turn);
            if waiting >= all || waiting == mem::replace(&mut before, waiting) {
                return;
            }
        }
    }

    /// Sends requests of a prepaid key, except those that its allotment covers by now.
    async fn send_prepaid(&self, name: &Arc<[u8]>, turn: u64, requests: Vec<Waiting>) -> bool {
        let requests = self.serve_waiting(name, requests);
        let Some(version) = requests.first().map(|request| Arc::clone(&request.version)) else { return true };
        let runs = runs_of(&requests);
        match self.holders_call(name, &runs) {
            Some(call) => self.send_allotted(name, turn, requests, call, &version).await,
            None if requests.len() > 1 => self.send_merged(name, turn, requests, &runs).await,
            None => self.send_alone(name, requests).await,
        }
    }

    /// Sends requests in separate calls, one after the other, without waiting for the replies in between. Returns
    /// whether the store answered the last.
    async fn send_alone(&self, name: &Arc<[u8]>, requests: Vec<Waiting>) -> bool {
        let sending = requests.into_iter().map(|request| async move {
            let WaitingRequest { version, cost, verb, deadline, reply } = request;
            let key = RequestKey { version: &version, name, cost };
            let decided = self.decide_alone(&[key], &verb, self.not_passed(deadline)).await;
            let answered = is_answered(&decided);
            reply.send(decided);
            answered
        });
        let mut sending: FuturesOrdered<_> = sending.collect();
        let mut answered = false;
        while let Some(last) = sending.next().await {
            answered = last;
        }
        answered
    }

    /// The deadline of a request that is sent although it has expired is a whole one from now.
    pub(super) fn not_passed(&self, deadline: Instant) -> Instant {
        let now = Instant::now();
        if deadline > now { deadline } else { now + self.inner.config.link.deadline }
    }

    /// Sends takes and peeks in one call. Returns whether the store answered.
    async fn send_merged(&self, name: &Arc<[u8]>, turn: u64, requests: Vec<Waiting>, runs: &[Run]) -> bool {
        let inner = &*self.inner;
        let Some(oldest) = requests.iter().map(|request| request.deadline).min() else { return false };
        let oldest = self.not_passed(oldest);
        let mark = inner.fallback.ledger.mark();
        match self.ask_merged(name, &requests, runs, oldest).await {
            // Takes of a long log are cheaper one by one.
            Ok(None) => self.send_alone(name, requests).await,
            Ok(Some(decisions)) => {
                inner.counters.merged_calls.add_one();
                inner.counters.merged_requests.add(requests.len() as u64);
                inner.counters.decided_by_store.add(requests.len() as u64);
                inner.fallback_log.decided_by_store();
                let granted = requests.iter().zip(&decisions).filter(|(_, decision)| decision.is_allowed());
                let granted = granted.map(|(request, _)| request.cost).max().unwrap_or_default();
                let key = RequestKey { version: &requests[0].version, name, cost: granted };
                let is_sound = inner.fallback.observe_merged(&key, &decisions, mark);
                let mut callers = Vec::with_capacity(requests.len());
                for (request, decision) in requests.into_iter().zip(decisions) {
                    callers.extend(self.answer(name, request, decision, is_sound));
                }
                callers.into_iter().for_each(Waker::wake);
                true
            }
            Err(failure) => {
                let again = self.answer_without_store_if_over(name, requests, oldest, failure);
                inner.hot_keys.put_back(name, turn, again);
                false
            }
        }
    }

    /// The decisions of a merged call; `None` if the requests have to be sent one by one, and nothing was done.
    async fn ask_merged(
        &self,
        name: &[u8],
        requests: &[Waiting],
        runs: &[Run],
        deadline: Instant,
    ) -> Result<Option<Vec<Decision>>, Failure> {
        let version = &requests[0].version;
        let Some(script) = &version.scripts.merge else { return Err(Failure::Strange) };
        let key = RequestKey { version, name, cost: 1 };
        self.charge_first(&[key], &Verb::Take(Take::now()), deadline).await?;
        for _ in 0..MAX_MIGRATIONS {
            let (subject, numbers) = (version.tagged(), request::merge(version.tagged(), runs));
            let called = self.call_script(script, &[subject], &[name], numbers, deadline).await;
            if let Err(Failure::Call(CallError::Unknown { .. })) = called {
                // The link has counted the call; the outcome of each of its requests is unknown.
                self.inner.counters.ambiguous_calls.add(requests.len() as u64 - 1);
            }
            let value = called?;
            let asked = requests.iter().map(|request| (request.cost, &request.verb));
            match reply::to_merged(version.tagged(), asked, &value) {
                MergedReply::Decided(decisions) => {
                    self.ensure_definition(version);
                    return Ok(Some(decisions));
                }
                MergedReply::TooLong => return Ok(None),
                MergedReply::Other(Reply::Late) if Instant::now() < deadline => {}
                MergedReply::Other(Reply::Late) => return Err(Failure::Late),
                MergedReply::Other(Reply::NotOurs { value, now, .. }) => {
                    self.migrate_state(version, name, value, now, deadline).await?;
                }
                MergedReply::Other(_) => return Err(Failure::Strange),
            }
        }
        Err(Failure::Late)
    }

    /// Writes a decision of the store for its caller, who is to be woken. A grant that its caller does not wait for any more is undone; one that
    /// raced with a local grant of the same key counts as spent, and the request is decided locally.
    pub(super) fn answer(&self, name: &[u8], request: Waiting, decision: Decision, is_sound: bool) -> Option<Waker> {
        let WaitingRequest { version, cost, verb, reply, .. } = request;
        let is_granted = decision.is_allowed() && cost > 0 && matches!(verb, Verb::Take(_));
        let answer = if is_granted && !is_sound {
            self.inner.counters.raced_grants.add_one();
            self.decide_by_fallback(&[RequestKey { version: &version, name, cost }], &verb)
        } else {
            Ok(decision)
        };
        match reply.write(answer) {
            Ok(caller) => caller,
            Err(Ok(unheard)) if is_granted && is_sound => {
                let undo = Verb::Undo { at: unheard.proceed_at(), lease: None };
                self.submit_alone(&RequestKey { version: &version, name, cost }, undo);
                None
            }
            Err(_) => None,
        }
    }

    /// Decides requests without the store. Returns those that were certainly not executed and have time left, if the call
    /// failed because the time of the oldest was up: they are sent again.
    pub(super) fn answer_without_store_if_over(
        &self,
        name: &Arc<[u8]>,
        requests: Vec<Waiting>,
        oldest: Instant,
        failure: Failure,
    ) -> Vec<Waiting> {
        let is_out_of_time = matches!(
            failure,
            Failure::Late | Failure::Call(CallError::NotExecuted { why: NotExecuted::OutOfTime, .. })
        );
        let now = Instant::now();
        let (again, over): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|request| is_out_of_time && now >= oldest && request.deadline > now);
        let mut failure = Some(failure);
        for request in over {
            match failure.take() {
                Some(failure) => self.answer_without_store(name, request, failure),
                None => {
                    let key = RequestKey { version: &request.version, name, cost: request.cost };
                    request.reply.send(self.decide_by_fallback(&[key], &request.verb));
                }
            }
        }
        again
    }

    fn answer_without_store(&self, name: &Arc<[u8]>, request: Waiting, failure: Failure) {
        let key = RequestKey { version: &request.version, name, cost: request.cost };
        request.reply.send(self.decide_without_store(&[key], &request.verb, failure));
    }

    /// A verb of one key whose decision is not awaited.
    pub(super) fn submit_alone(&self, request: &RequestKey<'_>, verb: Verb) {
        let (store, version, name) = (self.clone(), Arc::clone(request.version), request.name.to_vec());
        let cost = request.cost;
        self.spawn(async move {
            let deadline = Instant::now() + store.inner.config.link.deadline;
            let _ = store.decide_alone(&[RequestKey { version: &version, name: &name, cost }], &verb, deadline).await;
        });
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = Handle::try_current().ok().or_else(|| self.inner.runtime.clone()) {
            drop(runtime.spawn(task));
        }
    }
}

fn is_answered(decided: &Result<Decision, StoreError>) -> bool {
    decided.as_ref().is_ok_and(|decision| decision.source == Source::Store)
}

impl Waiting {
    /// Sends the decision to the caller, if it still waits.
    pub(super) fn answer(self, decided: Result<Decision, StoreError>) {
        self.reply.send(decided);
    }

    fn is_prepaid(&self) -> bool {
        self.version.prepaid.is_some()
    }
}

/// The takes of a queue as runs: neighbours with equal numbers are one run.
pub(super) fn runs_of(requests: &[Waiting]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for run in requests.iter().filter_map(|request| Run::of(request.cost, &request.verb)) {
        match runs.last_mut() {
            Some(last) if run.continues(last) => last.count += 1,
            _ => runs.push(run),
        }
    }
    runs
}

/// The call of a request that was sent at once. When it ends, or its caller is dropped, what waits is sent.
pub(super) struct Turn<'a> {
    store: &'a RedisStore,
    name: &'a [u8],
    pub(super) turn: u64,
    pub(super) is_answered: bool,
}

impl<'a> Turn<'a> {
    pub(super) fn new(store: &'a RedisStore, name: &'a [u8], turn: u64) -> Self {
        Self { store, name, turn, is_answered: false }
    }

    /// The call has ended with this result.
    pub(super) fn ends_with(&mut self, decided: &Result<Decision, StoreError>) {
        self.is_answered = is_answered(decided);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(end) = self.store.inner.hot_keys.end_turn(self.name, self.turn) {
            let _ = end.send(self.is_answered);
        }
    }
}

/// The end of the task that sends what waits. It ends early only with its runtime; then nothing must wait for it.
struct EndOfSending<'a> {
    store: &'a RedisStore,
    name: &'a Arc<[u8]>,
    turn: u64,
}

impl Drop for EndOfSending<'_> {
    fn drop(&mut self) {
        self.store.inner.hot_keys.forget(self.name, self.turn);
    }
}

/// Yields before a merged call, at most: enough for the callers of one call, [`MAX_REQUESTS`](crate::hot_keys).
const MAX_YIELDS: usize = 16;
