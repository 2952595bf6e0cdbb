//! Hot keys: requests that wait while a call about their key is in flight, and then leave together.
//!
//! A key without a call in flight is not in the table, and its next request is sent at once. Requests that arrive before
//! that call has ended queue up; when it ends, as many of them as possible leave in one merged call, in the order of their
//! arrival. A verb that changes more than a take does is a barrier: it is merged with nothing and overtakes nothing.
//!
//! The caller of the first request sends it. As soon as another request waits, a task is responsible for what waits: it
//! learns from the caller that the call has ended, and takes over without that if the caller does not poll its future any
//! more. Each entry of the table has a turn number, so that a caller that is late does not end the turn of another.
//!
//! This module has no socket and no clock. [`store::merge`](crate::store) sends what it hands out.
//!
//! Bound: [`HotKeys::new`] sets how many requests may wait, over all keys. A key may have reserved twice the places that
//! its last call needed.

use std::{
    collections::VecDeque,
    hash::BuildHasher,
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use foldhash::quality::RandomState;
use hashbrown::{HashTable, hash_table};
use parking_lot::Mutex;
use ratekeeper_core::Verb;

use crate::{policies::Version, request::Run};

/// The keys with a call in flight. `R` is where a reply goes, `E` is how the end of a caller's call is signalled.
#[derive(Debug)]
pub(crate) struct HotKeys<R, E> {
    shards: Vec<KeyTable<R, E>>,
    hasher: RandomState,
    turns: AtomicU64,
    /// Places for waiting requests that keys have reserved.
    reserved: AtomicUsize,
    most_waiting: usize,
}

/// The keys of one part of the table, by the hashes of their names.
type KeyTable<R, E> = Mutex<HashTable<HotKey<R, E>>>;

/// One key with a call in flight: the requests that wait for its end.
#[derive(Debug)]
struct HotKey<R, E> {
    /// The key's name on the server.
    name: Box<[u8]>,
    turn: u64,
    /// Of the first request, and of most that wait.
    version: Arc<Version>,
    sender: Sender<E>,
    waiting: VecDeque<QueuedRequest<R>>,
    /// The memory of the queue before.
    emptied: VecDeque<QueuedRequest<R>>,
    /// Places for waiting requests. All threads share their total, so it is not changed for every request.
    reserved: usize,
}

/// A request in the queue; with its version, if that is not the key's. All threads share the count of a version's owners,
/// so it is not changed for every request.
#[derive(Debug)]
struct QueuedRequest<R> {
    version: Option<Arc<Version>>,
    request: NewRequest<R>,
}

/// A request that arrives and has to wait.
#[derive(Debug)]
pub(crate) struct NewRequest<R> {
    pub(crate) cost: u64,
    pub(crate) verb: Verb,
    pub(crate) deadline: Instant,
    pub(crate) reply: R,
}

/// Which part sends the requests of a key.
#[derive(Debug)]
enum Sender<E> {
    /// The caller of the first request; with a signal if a task waits for the end of that call.
    Caller(Option<E>),
    Task,
}

/// A request that has waited.
#[derive(Debug)]
pub(crate) struct WaitingRequest<R> {
    pub(crate) version: Arc<Version>,
    pub(crate) cost: u64,
    pub(crate) verb: Verb,
    pub(crate) deadline: Instant,
    pub(crate) reply: R,
}

/// What becomes of a request that arrives.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// No call is in flight: the caller sends the request at once, and then ends its turn.
    Sent { turn: u64 },
    /// It waits.
    Queued,
    /// It waits and is the first: its caller starts the task that sends what waits.
    QueuedFirst { turn: u64 },
    /// Too many requests wait.
    Full,
}

/// Requests that leave together.
#[derive(Debug)]
pub(crate) struct Departure<R> {
    /// Requests whose deadline passed while they waited. They were not sent.
    pub(crate) expired: Vec<WaitingRequest<R>>,
    pub(crate) sent: Batch<R>,
}

/// How they are sent.
#[derive(Debug)]
pub(crate) enum Batch<R> {
    /// Takes and peeks under one version of the policy, in one call; the takes also as runs.
    Merged(Vec<WaitingRequest<R>>, Vec<Run>),
    /// Other verbs, each in a separate call, in this order.
    Barriers(Vec<WaitingRequest<R>>),
}

impl<R> NewRequest<R> {
    fn is_barrier(&self) -> bool {
        is_barrier(&self.verb)
    }

    fn under(self, version: Arc<Version>) -> WaitingRequest<R> {
        let Self { cost, verb, deadline, reply } = self;
        WaitingRequest { version, cost, verb, deadline, reply }
    }
}

impl<R> WaitingRequest<R> {
    fn is_barrier(&self) -> bool {
        is_barrier(&self.verb)
    }
}

fn is_barrier(verb: &Verb) -> bool {
    !matches!(verb, Verb::Take(_) | Verb::Peek)
}

impl<R> Batch<R> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Merged(requests, _) | Self::Barriers(requests) => requests.len(),
        }
    }
}

impl<R, E> HotKeys<R, E> {
    pub(crate) fn new(most_waiting: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            turns: AtomicU64::new(0),
            reserved: AtomicUsize::new(0),
            most_waiting,
        }
    }

    /// A request arrives. `waiting` builds its entry, if it has to wait; `end` builds the signal for the task, if it is the
    /// first that waits.
    pub(crate) fn arrive(
        &self,
        name: &[u8],
        version: &Arc<Version>,
        waiting: impl FnOnce() -> NewRequest<R>,
        end: impl FnOnce() -> E,
    ) -> Arrival {
        let hash = self.hasher.hash_one(name);
        let mut table = self.shard(hash).lock();
        match table.entry(hash, |key| *key.name == *name, |key| self.hasher.hash_one(&*key.name)) {
            hash_table::Entry::Vacant(entry) => {
                let turn = self.turns.fetch_add(1, Relaxed);
                entry.insert(HotKey::new(name, version, turn));
                Arrival::Sent { turn }
            }
            hash_table::Entry::Occupied(mut entry) => {
                let key = entry.get_mut();
                if key.waiting.len() >= key.reserved && !self.reserve(key) {
                    return Arrival::Full;
                }
                let version = (!Arc::ptr_eq(version, &key.version)).then(|| Arc::clone(version));
                key.waiting.push_back(QueuedRequest { version, request: waiting() });
                match &mut key.sender {
                    Sender::Caller(signal @ None) => {
                        *signal = Some(end());
                        Arrival::QueuedFirst { turn: key.turn }
                    }
                    Sender::Caller(Some(_)) | Sender::Task => Arrival::Queued,
                }
            }
        }
    }

    /// Doubles the places of a key, as far as there are any left. `false` if there are none.
    fn reserve(&self, key: &mut HotKey<R, E>) -> bool {
        let wanted = key.reserved.max(1);
        let before = self.reserved.fetch_add(wanted, Relaxed);
        let added = wanted.min(self.most_waiting.saturating_sub(before));
        self.reserved.fetch_sub(wanted - added, Relaxed);
        key.reserved += added;
        added > 0
    }

    /// Returns places of a key that are not in use.
    fn release(&self, key: &mut HotKey<R, E>, kept: usize) {
        self.reserved.fetch_sub(key.reserved - kept, Relaxed);
        key.reserved = kept;
    }

    /// The call that a caller has sent has ended. Returns the signal for the task that waits for it, if there is one; if
    /// there is none, the key is not hot any more.
    pub(crate) fn end_turn(&self, name: &[u8], turn: u64) -> Option<E> {
        self.with_key(name, turn, |mut entry| {
            match mem::replace(&mut entry.get_mut().sender, Sender::Task) {
                Sender::Caller(Some(signal)) => Some(signal),
                Sender::Caller(None) => {
                    self.remove(entry);
                    None
                }
                // The task did not wait any longer.
                Sender::Task => None,
            }
        })?
    }

    /// The task does not wait for the end of the caller's call any longer.
    pub(crate) fn take_over(&self, name: &[u8], turn: u64) {
        self.with_key(name, turn, |mut entry| entry.get_mut().sender = Sender::Task);
    }

    /// How many requests wait for this key.
    pub(crate) fn waiting(&self, name: &[u8], turn: u64) -> usize {
        self.with_key(name, turn, |entry| entry.get().waiting.len()).unwrap_or_default()
    }

    /// The requests that leave next, or `None` if the key is not hot any more. Those whose deadline is not after `expired_at`
    /// are not sent. Those for which `is_awaited` is false are dropped.
    pub(crate) fn next(
        &self,
        name: &[u8],
        turn: u64,
        expired_at: Option<Instant>,
        is_awaited: impl Fn(&R) -> bool,
    ) -> Option<Departure<R>> {
        // Only the task of a key takes requests out of its queue. So it takes the whole queue and picks those that leave
        // without the lock, which arriving requests need meanwhile.
        loop {
            let (mut queue, version) = self.with_key(name, turn, |mut entry| {
                let key = entry.get_mut();
                let before = key.waiting.len();
                if key.reserved > 2 * before {
                    self.release(key, before);
                }
                if before == 0 {
                    self.remove(entry);
                    return None;
                }
                let emptied = mem::take(&mut key.emptied);
                Some((mem::replace(&mut key.waiting, emptied), Arc::clone(&key.version)))
            })??;
            let departure = depart(&mut queue, &version, expired_at, &is_awaited);
            self.with_key(name, turn, |mut entry| {
                let key = entry.get_mut();
                while let Some(left) = queue.pop_back() {
                    key.waiting.push_front(left);
                }
                key.emptied = queue;
            });
            if departure.is_some() {
                return departure;
            }
        }
    }

    /// Requests that were certainly not executed, and are sent again before all others.
    pub(crate) fn put_back(&self, name: &[u8], turn: u64, requests: Vec<WaitingRequest<R>>) {
        self.with_key(name, turn, |mut entry| {
            let key = entry.get_mut();
            for WaitingRequest { version, cost, verb, deadline, reply } in requests.into_iter().rev() {
                let request = NewRequest { cost, verb, deadline, reply };
                key.waiting.push_front(QueuedRequest { version: Some(version), request });
            }
            // They had places before, which others may have taken meanwhile.
            let missing = key.waiting.len().saturating_sub(key.reserved);
            self.reserved.fetch_add(missing, Relaxed);
            key.reserved += missing;
        });
    }

    /// Forgets a key and everything that waits for it, unless its turn has ended.
    pub(crate) fn forget(&self, name: &[u8], turn: u64) {
        self.with_key(name, turn, |entry| self.remove(entry));
    }

    fn remove(&self, entry: hash_table::OccupiedEntry<'_, HotKey<R, E>>) {
        let (mut key, _) = entry.remove();
        self.release(&mut key, 0);
    }

    /// Accesses a key; `None` if its turn has ended.
    fn with_key<T>(
        &self,
        name: &[u8],
        turn: u64,
        access: impl FnOnce(hash_table::OccupiedEntry<'_, HotKey<R, E>>) -> T,
    ) -> Option<T> {
        let hash = self.hasher.hash_one(name);
        let mut table = self.shard(hash).lock();
        let entry = table.find_entry(hash, |key| key.turn == turn && *key.name == *name).ok()?;
        Some(access(entry))
    }

    fn shard(&self, hash: u64) -> &KeyTable<R, E> {
        // The table uses the lowest and the highest bits.
        #[allow(clippy::cast_possible_truncation, reason = "the remainder is below the number of shards")]
        &self.shards[((hash >> 32) % SHARDS as u64) as usize]
    }
}

impl<R, E> HotKey<R, E> {
    fn new(name: &[u8], version: &Arc<Version>, turn: u64) -> Self {
        let (version, sender) = (Arc::clone(version), Sender::Caller(None));
        Self {
            name: name.into(),
            turn,
            version,
            sender,
            waiting: VecDeque::new(),
            emptied: VecDeque::new(),
            reserved: 0,
        }
    }
}

/// Takes the longest prefix of the queue that can leave together. `None` if nothing is left.
fn depart<R>(
    queue: &mut VecDeque<QueuedRequest<R>>,
    of_most: &Arc<Version>,
    expired_at: Option<Instant>,
    is_awaited: &impl Fn(&R) -> bool,
) -> Option<Departure<R>> {
    let most = queue.len().min(MAX_REQUESTS);
    let (mut expired, mut sent, mut runs) =
        (Vec::new(), Vec::<WaitingRequest<R>>::with_capacity(most), Vec::<Run>::new());
    while let Some(QueuedRequest { version, request }) = queue.front() {
        let version = version.as_ref().unwrap_or(of_most);
        let run = Run::of(request.cost, &request.verb);
        let continues = run.as_ref().zip(runs.last()).is_some_and(|(run, last)| run.continues(last));
        if let Some(last) = sent.last() {
            let fits = last.is_barrier() == request.is_barrier()
                && Arc::ptr_eq(&last.version, version)
                && sent.len() < MAX_REQUESTS
                && (continues || run.is_none() || runs.len() < MAX_RUNS);
            if !fits {
                break;
            }
        }
        let Some(QueuedRequest { version, request }) = queue.pop_front() else { break };
        if !is_awaited(&request.reply) {
            continue;
        }
        let next = request.under(version.unwrap_or_else(|| Arc::clone(of_most)));
        if expired_at.is_some_and(|at| next.deadline <= at) {
            expired.push(next);
            continue;
        }
        sent.push(next);
        match (run, runs.last_mut()) {
            (Some(_), Some(last)) if continues => last.count += 1,
            (Some(run), _) => runs.push(run),
            (None, _) => {}
        }
    }
    if sent.is_empty() && expired.is_empty() {
        return None;
    }
    let is_barrier = sent.first().is_some_and(WaitingRequest::is_barrier);
    let sent = if is_barrier { Batch::Barriers(sent) } else { Batch::Merged(sent, runs) };
    Some(Departure { expired, sent })
}

/// A lock for each of these many parts of the table.
const SHARDS: usize = 64;
/// Requests in one merged call: about the time in which the server could execute ten calls.
const MAX_REQUESTS: usize = 1_024;
/// Runs in one merged call. The script decides them one after the other.
const MAX_RUNS: usize = 32;

#[cfg(test)]
mod tests;
