//! The store: asks the server, and says what to do when there is no answer.

mod charge;
mod forget;
mod strict;

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    slice,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redis::Value;
use tokio::runtime::Handle;
use tollgate_core::{
    Ask, Carry, DecidedBy, Decision, Micros, Policy, Release, RulesTold, Source, Store, StoreError, Take, Verb,
    Verdict, bounds::MAX_KEY_BYTES,
};

use crate::{
    address::{Address, AddressError},
    carry::Unreadable,
    config::RedisConfig,
    counters::{Counters, Counts},
    fallback::Fallback,
    ledger::{Party, Start},
    link::{Background, Call, CallError, Link, Script, Whom},
    policies::{Policies, RedisPolicy, Scripts, Version},
    pretend::PretendClock,
    reply::{self, Reply},
    request::{self, Tagged},
    standing::Doubt,
};

/// Remembers keys in Redis or Valkey: one server, one behind Sentinel, or a cluster. Cheap to clone.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_redis::RedisStore;
///
/// let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) link: Link,
    pub(crate) config: RedisConfig,
    pub(crate) counters: Arc<Counters>,
    pub(crate) policies: Policies,
    pub(crate) replace: Script,
    pub(crate) began: Instant,
    fallback: Fallback,
    runtime: Option<Handle>,
    /// When keys expire that live for no time at all, where time is pretended.
    pub(crate) far: u64,
    last_failure: Mutex<Option<(Instant, String)>>,
    pub(crate) doubt: Doubt,
    /// Tells the charges of this process from those of others.
    process: u64,
    charging: Background,
}

/// Making one
impl RedisStore {
    /// A store at this address, with the usual settings. Only a bad address is an error: a server that is not there
    /// yet is looked for in the background, and until it is found rules answer by their own policy.
    pub async fn connect(url: &str) -> Result<Self, AddressError> {
        let store = Self::open(Address::parse(url)?, RedisConfig::default());
        store.greet().await;
        Ok(store)
    }

    /// A store with settings of your own.
    pub async fn connect_with(url: &str, config: RedisConfig) -> Result<Self, AddressError> {
        let store = Self::open(Address::parse(url)?, config);
        store.greet().await;
        Ok(store)
    }

    /// The same without waiting for a first sign of the server.
    pub fn open(address: Address, config: RedisConfig) -> Self {
        let counters = Arc::new(Counters::default());
        let link = Link::open(address, config.link.clone(), Arc::clone(&counters));
        let at = config.clock.as_ref().map_or_else(|| link.server_now(), PretendClock::now);
        let start = Start { at, free_permille: config.local_start_permille };
        let inner = Inner {
            link,
            policies: Policies::default(),
            replace: Script::new(format!("#!lua\n{}", include_str!("../lua/replace.lua"))),
            began: Instant::now(),
            fallback: Fallback::new(config.local_bytes, start),
            process: RandomState::new().build_hasher().finish(),
            charging: Background::default(),
            runtime: Handle::try_current().ok(),
            far: PretendClock::keys_live_from(),
            last_failure: Mutex::new(None),
            doubt: Doubt::default(),
            counters,
            config,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Waits for the server, but not for long: the first decisions should be exact if they can be.
    async fn greet(&self) {
        let deadline = Instant::now() + self.inner.config.link.connect_timeout;
        let _ = self.inner.link.command(Whom::Any, &redis::cmd("PING"), deadline).await;
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        let mut counts = self.inner.counters.snapshot();
        (counts.local_keys_owing, counts.local_grants_owing) = self.inner.owing();
        counts
    }

    /// What last kept the server from deciding, and how long ago that was. For logs and health pages: decisions
    /// themselves go on, by each rule's policy.
    pub fn last_failure(&self) -> Option<(Duration, String)> {
        let last = self.inner.last_failure.lock();
        last.as_ref().map(|(when, what)| (when.elapsed(), what.clone()))
    }
}

impl Store for RedisStore {
    type Policy = RedisPolicy;

    fn install(&self, policy: Policy, carry: Carry) -> Result<RedisPolicy, StoreError> {
        let Inner { policies, config, .. } = &*self.inner;
        Ok(policies.install(policy, carry, &config.prefix, config.together, config.nodes))
    }

    fn install_beside(&self, policy: Policy) -> Result<RedisPolicy, StoreError> {
        let Inner { policies, config, .. } = &*self.inner;
        Ok(policies.install_beside(policy, &config.prefix, config.together, config.nodes))
    }

    async fn decide(&self, asks: &[Ask<'_, RedisPolicy>], verb: Verb) -> Result<Decision, StoreError> {
        check(asks, &verb)?;
        let keys = Keys::of(asks);
        let parties: Vec<Party<'_>> = keys.parties(asks).collect();
        let inner = &*self.inner;
        // What was granted here while the server was away, and is not charged yet, is given back here.
        if let [party] = parties.as_slice()
            && inner.fallback.takes_back(party, &verb, self.now_here())
        {
            return Ok(inner.fallback.decide(&parties, &Verb::Peek, self.now_here()).0);
        }
        let deadline = Instant::now() + inner.config.link.deadline;
        // Before anything is sent: grants that are made here from now on are found when the answer is there.
        let mark = inner.fallback.ledger.mark();
        let asked = async {
            self.charge_first(&parties, &verb, deadline).await?;
            self.ask(&parties, &verb, deadline).await
        };
        match asked.await {
            Ok(decision) if inner.fallback.heard(&parties, &verb, &decision, mark) => {
                inner.counters.decided_by_store.add_one();
                Ok(decision)
            }
            Ok(raced) => {
                inner.counters.raced_grants.add_one();
                self.release_raced(asks, &raced);
                self.decide_here(&parties, &verb)
            }
            Err(failure) => self.without_the_server(&parties, &verb, failure),
        }
    }

    fn now(&self) -> Micros {
        self.now_here()
    }

    fn tell(&self, ask: Ask<'_, RedisPolicy>, verb: Verb) {
        let (store, policy, key) = (self.clone(), ask.policy.clone(), ask.key.to_owned());
        let runtime = Handle::try_current().ok().or_else(|| self.inner.runtime.clone());
        if let Some(runtime) = runtime {
            runtime.spawn(async move {
                let _ = store.decide(&[Ask::new(&policy, &key)], verb).await;
            });
        }
    }
}

/// Asking the server
impl RedisStore {
    /// One question about one key, or one take for several.
    async fn ask(&self, asks: &[Party<'_>], verb: &Verb, deadline: Instant) -> Result<Decision, Failure> {
        let names: Vec<&[u8]> = asks.iter().map(|ask| ask.name).collect();
        match (asks, verb) {
            ([_, _, ..], Verb::Take(take)) if asks.len() > MOST_TOGETHER || !self.inner.link.share_a_slot(&names) => {
                self.take_in_turn(asks, &names, take, deadline).await
            }
            _ => self.ask_together(asks, &names, verb, deadline).await,
        }
    }

    /// One script for keys that share a slot. Asks again only after a value was carried over to the rules of today, or
    /// after the server's clock was set.
    async fn ask_together(
        &self,
        asks: &[Party<'_>],
        names: &[&[u8]],
        verb: &Verb,
        deadline: Instant,
    ) -> Result<Decision, Failure> {
        let inner = &*self.inner;
        let scripts = match asks {
            [one] => Arc::clone(&one.version.scripts),
            _ => inner.policies.scripts(asks.iter().flat_map(|ask| ask.version.scripts.shape.clone()).collect()),
        };
        let subjects: Vec<Tagged<'_>> = asks.iter().map(|ask| ask.version.tagged().times(ask.times)).collect();
        for _ in 0..MOST_CARRIES + asks.len() {
            let value = self.call(&scripts, &subjects, names, verb, deadline).await?;
            let reply = match verb {
                Verb::Take(take) => reply::to_take(&subjects, take, &value),
                other => reply::to_amend(subjects[0].policy, other, &value),
            };
            match reply {
                Reply::Decided(decision) => {
                    for ask in asks {
                        self.keep_written_down(ask.version);
                    }
                    return Ok(decision);
                }
                // Nothing was done. With time left here it was the server's clock that was set, and that is known now.
                Reply::Late if Instant::now() < deadline => {}
                Reply::Late => return Err(Failure::Late),
                Reply::NotOurs { subject, value, now } => {
                    let (ask, name) = asks.get(subject).zip(names.get(subject)).ok_or(Failure::Strange)?;
                    self.carry_over(ask.version, name, value, now, deadline).await?;
                }
                Reply::Strange => return Err(Failure::Strange),
            }
        }
        Err(Failure::Late)
    }

    async fn call(
        &self,
        scripts: &Scripts,
        subjects: &[Tagged<'_>],
        names: &[&[u8]],
        verb: &Verb,
        deadline: Instant,
    ) -> Result<Value, Failure> {
        let (script, numbers) = match verb {
            Verb::Take(take) => (&scripts.take, request::take(&scripts.shape, subjects, take)),
            other => (&scripts.amend, request::amend(&scripts.shape, subjects[0], other)),
        };
        let mut args = vec![numbers];
        self.pretend(&mut args);
        let called = self.inner.link.call(Call { script, keys: names, args, deadline }).await;
        called.map_err(|error| match error {
            CallError::Refused { code, .. } if code == "WRONGTYPE" => Self::another_kind(names),
            error => error.into(),
        })
    }

    /// Brings the time along, where it is not the server's.
    fn pretend(&self, args: &mut Vec<Vec<u8>>) {
        if let Some(clock) = &self.inner.config.clock {
            args.push(clock.now().0.to_string().into_bytes());
            args.push(self.inner.far.to_string().into_bytes());
        }
    }

    /// The server's time, as well as it is known here; or the pretended one.
    fn now_here(&self) -> Micros {
        match &self.inner.config.clock {
            Some(clock) => clock.now(),
            None => self.inner.link.server_now(),
        }
    }

    /// Keys on different nodes cannot be decided in one step: they are charged one after another, and what was charged
    /// is given back if a later one refuses. The decision says so. Keys whose rules all count refused requests are
    /// charged in any case; where only some of a key's rules do, they count what the key itself refuses.
    async fn take_in_turn(
        &self,
        asks: &[Party<'_>],
        names: &[&[u8]],
        take: &Take,
        deadline: Instant,
    ) -> Result<Decision, Failure> {
        let mut told: Vec<Decision> = Vec::new();
        let mut refused_by = None;
        for (index, (ask, name)) in asks.iter().zip(names).enumerate() {
            // Once refused, the others are only looked at, for their numbers, unless they count refused requests.
            let looks = refused_by.is_some() && !ask.counts_every_refusal();
            let take = if looks { Take { cost: 0, ..*take } } else { *take };
            let (ask, name) = (slice::from_ref(ask), slice::from_ref(name));
            match self.ask_together(ask, name, &Verb::Take(take), deadline).await {
                Ok(decision) => {
                    if refused_by.is_none() && !decision.is_allowed() {
                        refused_by = Some(index);
                    }
                    told.push(decision);
                }
                Err(failure) => {
                    let charged = refused_by.unwrap_or(told.len());
                    self.give_back(&asks[..charged], &told, &take).await;
                    return Err(failure);
                }
            }
        }
        if let Some(refused_by) = refused_by {
            self.give_back(&asks[..refused_by], &told, take).await;
        }
        Ok(in_turn(&told, refused_by))
    }

    async fn give_back(&self, asks: &[Party<'_>], told: &[Decision], take: &Take) {
        for (ask, decision) in asks.iter().zip(told) {
            let cost = take.times(ask.times).cost;
            if cost == 0 || ask.counts_every_refusal() {
                continue;
            }
            let at = decision.decided_at + decision.wait();
            let undo = Verb::Undo { cost, at, lease: decision.lease };
            let deadline = Instant::now() + self.inner.config.link.deadline;
            // If this fails too, the permits count as spent: too few are admitted, never too many.
            let _ = self.ask_together(slice::from_ref(ask), &[ask.name], &undo, deadline).await;
        }
    }
}

/// Without the server
impl RedisStore {
    fn without_the_server(&self, asks: &[Party<'_>], verb: &Verb, failure: Failure) -> Result<Decision, StoreError> {
        let inner = &*self.inner;
        self.doubt_after(&failure);
        self.count_foreign(&failure);
        let error = StoreError::from(failure);
        *inner.last_failure.lock() = Some((Instant::now(), told_in_full(&error)));
        match verb {
            Verb::Take(_) | Verb::Peek => self.decide_here(asks, verb),
            verb => {
                let now = self.now_here();
                let held = asks.first().and_then(|party| inner.fallback.holds(party, verb, now));
                self.ensure_charging();
                held.ok_or(error)
            }
        }
    }

    /// A call that was refused is a reason to ask whether any would be.
    fn doubt_after(&self, failure: &Failure) {
        if let Failure::Call(CallError::Refused { .. } | CallError::NotRun { .. }) = failure {
            self.doubt();
        }
    }

    /// Counts a request that met a value which is not ours, and was left alone.
    fn count_foreign(&self, failure: &Failure) {
        if let Failure::NotOurs(_) = failure {
            self.inner.counters.foreign_states.add_one();
        }
    }

    /// A take or a look, by each rule's policy.
    fn decide_here(&self, asks: &[Party<'_>], verb: &Verb) -> Result<Decision, StoreError> {
        let inner = &*self.inner;
        if !inner.fallback.ledger.is_met() && inner.link.was_reached() {
            inner.fallback.ledger.meet();
        }
        let (decision, noted) = inner.fallback.decide(asks, verb, self.now_here());
        if noted.is_err() {
            inner.counters.local_no_room.add_one();
        }
        match decision.source {
            Source::Open if decision.is_allowed() => inner.counters.let_through.add_one(),
            Source::Closed | Source::Open => inner.counters.turned_away.add_one(),
            _ => inner.counters.decided_locally.add_one(),
        }
        if inner.owing().0 > 0 {
            self.ensure_charging();
        }
        Ok(decision)
    }

    /// The store granted permits while the same key was granted some here; both may have been the last, so the store's
    /// count as spent. They are not given back: some of them may have lapsed, and would be given back twice. A lease is.
    fn release_raced(&self, asks: &[Ask<'_, RedisPolicy>], raced: &Decision) {
        if let (Some(id), [ask]) = (raced.lease, asks) {
            self.tell(Ask::new(ask.policy, ask.key), Verb::Release(Release::Lease(id)));
        }
    }
}

/// The rules of a request's keys as they are now, and the keys' names.
pub(crate) struct Keys(Vec<(Arc<Version>, Vec<u8>)>);

impl Keys {
    pub(crate) fn of(asks: &[Ask<'_, RedisPolicy>]) -> Self {
        let versions = asks.iter().map(|ask| (ask.policy.current(), ask.key));
        Self(versions.map(|(version, key)| (Arc::clone(&version), version.keys.name(key))).collect())
    }

    pub(crate) fn parties<'a>(&'a self, asks: &'a [Ask<'_, RedisPolicy>]) -> impl Iterator<Item = Party<'a>> {
        let keys = asks.iter().zip(&self.0);
        keys.map(|(ask, (version, name))| Party { version, name, times: ask.times })
    }
}

/// Why there is no decision.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The call brought none.
    Call(CallError),
    /// The script ran after its deadline, and did nothing.
    Late,
    /// Something lies there that is not ours to read.
    NotOurs(Unreadable),
    /// An answer no script of ours gives.
    Strange,
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
            Failure::Call(error @ CallError::NotRun { .. }) => {
                unreachable(error.address().to_string(), Box::new(error))
            }
            Failure::Call(CallError::Unknown { address, waited }) => {
                Self::TimedOut { address: address.to_string(), waited: Micros::from_duration(waited) }
            }
            Failure::Call(CallError::Refused { address, code, message }) => {
                Self::Refused { address: address.to_string(), reason: format!("{code} {message}") }
            }
            Failure::Late => unreachable("the server".to_owned(), "the script ran too late, and did nothing".into()),
            Failure::NotOurs(unreadable) => Self::NotOurs { key: unreadable.name, found: unreadable.found },
            Failure::Strange => Self::Refused {
                address: "the server".to_owned(),
                reason: "an answer no script of ours gives".to_owned(),
            },
        }
    }
}

/// An error with its causes.
fn told_in_full(error: &StoreError) -> String {
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        told = format!("{told}: {error}");
        cause = error.source();
    }
    told
}

/// One decision out of several that were made in turn.
fn in_turn(told: &[Decision], refused_by: Option<usize>) -> Decision {
    let rules = RulesTold::collect(told.iter().flat_map(|decision| decision.rules.iter().copied()));
    let speaks = |index: usize| {
        let before: usize = told[..index].iter().map(|decision| decision.rules.len()).sum();
        match told[index].decided_by {
            DecidedBy::Rule(rule) => DecidedBy::Rule(before + rule),
            other => other,
        }
    };
    let (index, wait) = match refused_by {
        Some(index) => (index, Micros::ZERO),
        None => {
            let least = (0..told.len()).min_by_key(|index| told[*index].remaining()).unwrap_or(0);
            (least, told.iter().map(Decision::wait).max().unwrap_or_default())
        }
    };
    // Those after the one that refused were looked at, or have refused and counted it as well.
    let later = told.iter().map(|decision| decision.verdict).max_by_key(|verdict| match verdict {
        Verdict::Allow { .. } => (0, Micros::ZERO),
        Verdict::Deny { retry_after } => (1, *retry_after),
        Verdict::Never => (2, Micros::ZERO),
    });
    let verdict = later.filter(|_| refused_by.is_some()).unwrap_or(Verdict::Allow { wait });
    let lease = if refused_by.is_some() { None } else { told.iter().find_map(|decision| decision.lease) };
    let decided_at = told.iter().map(|decision| decision.decided_at).max().unwrap_or_default();
    Decision { verdict, decided_by: speaks(index), source: Source::InTurn, decided_at, lease, rules }
}

fn check(asks: &[Ask<'_, RedisPolicy>], verb: &Verb) -> Result<(), StoreError> {
    if let Some(found) = asks.iter().map(|ask| ask.key.len()).find(|length| *length > MAX_KEY_BYTES) {
        return Err(StoreError::KeyTooLong { found, max: MAX_KEY_BYTES });
    }
    match (asks, verb) {
        ([_], _) => Ok(()),
        ([], _) | (_, Verb::Take(_)) => {
            let same = |index: usize| {
                asks[..index]
                    .iter()
                    .any(|other| other.key == asks[index].key && other.policy.is_same_as(asks[index].policy))
            };
            match (0..asks.len()).find(|index| same(*index)) {
                Some(again) => Err(StoreError::SameKeyTwice { key: asks[again].key.to_owned() }),
                None => Ok(()),
            }
        }
        _ => Err(StoreError::OneKeyOnly { verb: "this verb", found: asks.len() }),
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("link", &self.inner.link).finish_non_exhaustive()
    }
}

/// Subjects in one script; it grows with every one of them, and keeps everybody waiting while it runs.
const MOST_TOGETHER: usize = 64;
/// How often a value may be carried over for one question: while two releases with different rules share a key, the
/// other may carry it back in between. One meets the other about every second time, on a busy machine more often; the
/// deadline ends it sooner where this is too much.
const MOST_CARRIES: usize = 64;
