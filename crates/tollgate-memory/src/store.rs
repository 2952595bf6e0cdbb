//! The store: shards, a clock, and the order in which locks are taken.

use std::{fmt, future, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tollgate_core::{
    Ask, Carry, Decision, Immediate, Micros, Party, PlainBucket, PlainTake, Policy, Source, Store, StoreError, Take,
    Verb, Verdict,
    bounds::{MAX_KEY_BYTES, MAX_TIME},
    take_together,
};

use crate::{
    clock::{Clock, SystemClock},
    entry::{KeyWords, VersionId},
    hash::{KeyHasher, Salt},
    hot::{Hot, SET_BYTES, SET_KEYS, Tag, Visit, WantedKey},
    policies::{Policies, PolicyId},
    shard::{Hashed, Home, Out, Shard},
    stats::Stats,
};

/// Keeps limits in process memory. Clones share it.
///
/// It needs no set-up and no async runtime; what it promises about memory and threads is told in the
/// [crate documentation](crate).
pub struct MemoryStore<C = SystemClock> {
    inner: Arc<Inner<C>>,
}

struct Inner<C> {
    /// The busiest keys, decided about without a lock.
    hot: Arc<Hot>,
    shards: Box<[Padded]>,
    hasher: KeyHasher,
    clock: C,
    budget: usize,
}

/// One shard to two cache lines, so that neighbours do not slow each other down.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// A policy that a [`MemoryStore`] has been told about.
#[derive(Clone)]
pub struct InstalledPolicy {
    id: PolicyId,
    /// The version this was returned for. Hot keys are decided about under it as long as it is the newest; after that
    /// the shards, which know the newest, decide.
    version: VersionId,
    /// The same, if it stands beside others and is always meant.
    beside: Option<VersionId>,
    policy: Arc<Policy>,
    short_way: Option<ShortWay>,
}

/// What it takes to decide about a hot key of a policy that is one plain bucket, close at hand.
#[derive(Clone, Copy)]
struct ShortWay {
    salt: Salt,
    tag: Tag,
    bucket: PlainBucket,
}

/// How a [`MemoryStore`] is to be made.
#[derive(Clone, Copy, Debug)]
pub struct MemoryConfig {
    budget_bytes: usize,
    shards: usize,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(4, usize::from);
        Self { budget_bytes: DEFAULT_BUDGET, shards: (threads * 16).next_power_of_two() }
    }
}

impl MemoryConfig {
    /// The most bytes that keys and their states may take; 256 MiB (some five million keys) unless said otherwise.
    /// At least 64 KiB.
    #[must_use]
    pub fn budget_bytes(mut self, bytes: usize) -> Self {
        self.budget_bytes = bytes.max(64 * 1024);
        self
    }

    /// How many parts the keys are split into, rounded up to a power of two; sixteen per processor unless said
    /// otherwise. At most 4096.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards.clamp(1, 4096).next_power_of_two();
        self
    }
}

impl MemoryStore {
    /// A store on the machine's clock, with the usual budget.
    pub fn new() -> Self {
        Self::with(MemoryConfig::default(), SystemClock::new())
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> MemoryStore<C> {
    /// A store on any clock.
    pub fn with_clock(clock: C) -> Self {
        Self::with(MemoryConfig::default(), clock)
    }

    /// A store of any size on any clock.
    pub fn with(config: MemoryConfig, clock: C) -> Self {
        let hasher = KeyHasher::random();
        // Small budgets get few shards: each needs room for a handful of keys.
        let shards = config.shards.min((config.budget_bytes / SMALLEST_SHARD).max(1).next_power_of_two());
        let budget = config.budget_bytes / shards;
        let sets = (budget / HOT_SHARE / SET_BYTES).min(HOT_KEYS / usize::from(SET_KEYS) / shards);
        let sets = if sets == 0 { 0 } else { 1 << sets.ilog2() };
        let hot = Arc::new(Hot::new(shards, sets));
        let shard = |number| {
            let budget = budget - hot.bytes() / shards;
            Padded(Mutex::new(Shard::new(number, budget, hasher.clone(), Arc::clone(&hot))))
        };
        let shards = (0..shards).map(shard).collect();
        Self { inner: Arc::new(Inner { hot, shards, hasher, clock, budget: config.budget_bytes }) }
    }

    /// Decides at once, without a runtime. See [`Store::decide`].
    #[inline(always)]
    pub fn decide_now(&self, asks: &[Ask<'_, InstalledPolicy>], verb: &Verb) -> Result<Decision, StoreError> {
        match (asks, verb) {
            ([ask], Verb::Take(take)) if ask.times == 1 => self.decide_one(ask, take),
            _ => self.decide_otherwise(asks, verb),
        }
    }

    /// Decides one take at once, and tells the verdict only: for those who ask millions of times a second and have no use
    /// for the numbers, which then are not worked out.
    #[inline(always)]
    pub fn verdict_now(&self, ask: &Ask<'_, InstalledPolicy>, take: &Take) -> Result<Verdict, StoreError> {
        self.take_one(
            ask,
            &take.times(ask.times),
            |bucket, plain, _| bucket.verdict(plain),
            |decision| decision.verdict,
        )
    }

    /// What is here becomes part of the caller, so only the shortest way is: a short key, its hot slot, a plain bucket.
    /// What came of it is told by `tell` here, and from a whole decision by `of` everywhere else.
    ///
    /// The clock comes first because a processor takes longest over it, and can do all the rest meanwhile.
    #[inline(always)]
    fn take_one<T>(
        &self,
        ask: &Ask<'_, InstalledPolicy>,
        take: &Take,
        tell: impl FnOnce(&PlainBucket, PlainTake, Micros) -> T,
        of: impl FnOnce(Decision) -> T,
    ) -> Result<T, StoreError> {
        let inner = &*self.inner;
        let now = inner.clock.now().min(MAX_TIME);
        if let Some(ShortWay { salt, tag, bucket }) = &ask.policy.short_way
            && let Some(words) = KeyWords::of_short(ask.key.as_bytes())
        {
            let hash = inner.hasher.hash_under(*salt, words);
            if !is_time_to_look_around(hash, now) {
                match inner.hot.visit(WantedKey::new(hash, words, *tag)) {
                    Visit::Here(visited) => {
                        if let Some(plain) = bucket.take(visited.meter, take, now)
                            && bucket.charged(plain, now).is_none_or(|meter| visited.write(meter))
                        {
                            return Ok(tell(bucket, plain, now));
                        }
                    }
                    Visit::Elsewhere => {}
                    Visit::Nowhere => return Ok(of(self.take_cold(ask.policy, ask.key, *take, hash, now).answer)),
                }
            }
        }
        self.take_elsewhere(ask.policy, ask.key, *take, now).answer.map(of)
    }

    #[inline(always)]
    fn decide_one(&self, ask: &Ask<'_, InstalledPolicy>, take: &Take) -> Result<Decision, StoreError> {
        self.take_one(ask, take, |bucket, plain, now| Decision::of_one(bucket.tell(plain), now), |decision| decision)
    }

    /// A short key that is not hot. (What it is given are copies, so that the caller need not keep anything in memory.)
    #[inline(never)]
    fn take_cold(&self, policy: &InstalledPolicy, key: &str, take: Take, hash: u64, now: Micros) -> Apart<Decision> {
        let key = key.as_bytes();
        let key =
            Hashed { policy: policy.id, beside: policy.beside, key, hash, words: self.inner.hasher.words_of(key) };
        Apart::new(take_locked(self.shard(hash), &key, &take, now))
    }

    /// All other ways.
    #[inline(never)]
    fn take_elsewhere(
        &self,
        policy: &InstalledPolicy,
        key: &str,
        take: Take,
        now: Micros,
    ) -> Apart<Result<Decision, StoreError>> {
        let key = match self.hashed(&Ask::new(policy, key)) {
            Ok(key) => key,
            Err(error) => return Apart::new(Err(error)),
        };
        let shard = self.shard(key.hash);
        let wanted = WantedKey::new(key.hash, key.words, Tag::new(policy.version));
        if let Some(rule) = self.inner.hot.take(wanted, &policy.policy, &take, now) {
            if is_time_to_look_around(key.hash, now) {
                look_around(shard, now);
            }
            return Apart::new(Ok(Decision::of_one(rule, now)));
        }
        Apart::new(Ok(take_locked(shard, &key, &take, now)))
    }

    #[inline(never)]
    fn decide_otherwise(&self, asks: &[Ask<'_, InstalledPolicy>], verb: &Verb) -> Result<Decision, StoreError> {
        match (asks, verb) {
            ([ask], Verb::Take(take)) => self.decide_one(ask, &take.times(ask.times)),
            ([ask], _) => {
                let key = self.hashed(ask)?;
                let now = self.inner.clock.now();
                Ok(self.shard(key.hash).lock().decide(&key, verb, now))
            }
            (_, Verb::Take(take)) => self.take_several(asks, take),
            _ => Err(StoreError::OneKeyOnly { verb: "this verb", found: asks.len() }),
        }
    }

    /// Locks every shard concerned, lowest first, so that no two requests can wait for each other.
    fn take_several(&self, asks: &[Ask<'_, InstalledPolicy>], take: &Take) -> Result<Decision, StoreError> {
        let keys = asks.iter().map(|ask| self.hashed(ask)).collect::<Result<Vec<_>, _>>()?;
        if let Some(again) = keys.iter().enumerate().find_map(|(index, key)| {
            keys[..index].iter().any(|other| other.policy == key.policy && other.key == key.key).then_some(index)
        }) {
            return Err(StoreError::SameKeyTwice { key: asks[again].key.to_owned() });
        }
        let mut wanted: Vec<usize> = keys.iter().map(|key| self.shard_index(key.hash)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut locked: Vec<_> = wanted.iter().map(|&index| (index, self.inner.shards[index].0.lock())).collect();
        let now = self.inner.clock.now();
        let mut shard_of = |key: &Hashed<'_>| {
            let index = self.shard_index(key.hash);
            locked.iter().position(|(shard, _)| *shard == index).unwrap_or(0)
        };
        let places: Vec<usize> = keys.iter().map(&mut shard_of).collect();

        let mut out: Vec<Out> =
            keys.iter().zip(&places).map(|(key, &place)| locked[place].1.take_out(key, now)).collect();
        let policies: Vec<Arc<Policy>> = keys
            .iter()
            .zip(&places)
            .map(|(key, &place)| Arc::clone(locked[place].1.policies.meant(key.policy, key.beside).1))
            .collect();
        // Keys without room share one count per shard and policy, which must bear all of them.
        for ((key, &place), policy) in keys.iter().zip(&places).zip(&policies) {
            let shares = |other: usize| out[other].home == Home::Overflow && places[other] == place;
            let sharing: Vec<usize> =
                (0..keys.len()).filter(|&other| shares(other) && keys[other].policy == key.policy).collect();
            if let [first, _, ..] = sharing[..] {
                let all = take.times(sharing.iter().fold(0, |sum: u64, &other| sum.saturating_add(asks[other].times)));
                let mut shared = out[first].subject.clone();
                let step = policy.decide(&mut shared, &Verb::Take(all), now);
                if !step.decision.is_allowed() {
                    return Ok(self.put_all_back(&keys, &places, out, &mut locked, None, step.decision, now));
                }
            }
        }
        let each = out.iter_mut().zip(&policies).zip(asks);
        let mut parties: Vec<Party<'_>> =
            each.map(|((out, policy), ask)| policy.party(&mut out.subject).times(ask.times)).collect();
        let step = take_together(&mut parties, take, now);
        let costs: Vec<u64> = asks.iter().map(|ask| take.times(ask.times).cost).collect();
        let charged = step.decision.is_allowed().then_some(costs.as_slice());
        Ok(self.put_all_back(&keys, &places, out, &mut locked, charged, step.decision, now))
    }

    /// Known keys first: they have their place, and newcomers may need to push others out for theirs.
    #[allow(clippy::too_many_arguments, reason = "the second half of one function, split where it reads best")]
    fn put_all_back(
        &self,
        keys: &[Hashed<'_>],
        places: &[usize],
        out: Vec<Out>,
        locked: &mut [(usize, MutexGuard<'_, Shard>)],
        charged: Option<&[u64]>,
        mut decision: Decision,
        now: Micros,
    ) -> Decision {
        if out.iter().any(|out| out.home == Home::Overflow) {
            decision.source = Source::Overflow;
        }
        let (known, new): (Vec<_>, Vec<_>) =
            keys.iter().zip(places).zip(out).enumerate().partition(|(_, (_, out))| out.home == Home::Known);
        for (index, ((key, place), out)) in known.into_iter().chain(new) {
            locked[*place].1.put_back(key, out, charged.map(|costs| costs[index]), now);
        }
        if let Some((_, shard)) = locked.first_mut() {
            shard.stats.overflowed += u64::from(decision.source == Source::Overflow);
        }
        decision
    }

    fn install_as(
        &self,
        policy: Policy,
        install: impl Fn(&mut Shard, &Arc<Policy>) -> Option<PolicyId>,
    ) -> Result<InstalledPolicy, StoreError> {
        let policy = Arc::new(policy);
        // Every shard numbers policies alike, because each is told of all of them in the same order: installs take
        // the locks one by one from the first, so that none overtakes another.
        let mut first = self.inner.shards[0].0.lock();
        let full = StoreError::TooManyPolicies { max: Policies::MOST };
        let id = install(&mut first, &policy).ok_or(full)?;
        for shard in &self.inner.shards[1..] {
            install(&mut shard.0.lock(), &policy);
        }
        let (version, _) = first.policies.newest(id);
        let (salt, tag) = (self.inner.hasher.salt(id), Tag::new(version));
        let short_way = PlainBucket::of(&policy).map(|bucket| ShortWay { salt, tag, bucket });
        Ok(InstalledPolicy { id, version, beside: None, policy, short_way })
    }

    #[inline(always)]
    fn hashed<'a>(&self, ask: &Ask<'a, InstalledPolicy>) -> Result<Hashed<'a>, StoreError> {
        let key = ask.key.as_bytes();
        if key.len() > MAX_KEY_BYTES {
            return Err(StoreError::KeyTooLong { found: key.len(), max: MAX_KEY_BYTES });
        }
        Ok(Hashed::new(&self.inner.hasher, ask.policy.id, ask.policy.beside, key))
    }

    #[inline]
    fn shard_index(&self, hash: u64) -> usize {
        Hot::shard_of(hash, self.inner.shards.len())
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.inner.shards[self.shard_index(hash)].0
    }
}

/// Looking after it
impl<C: Clock> MemoryStore<C> {
    /// Keys remembered at present. Some of them may be as good as new and about to go.
    pub fn len(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Whether no key is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that keys and their states take at present.
    pub fn bytes(&self) -> usize {
        let shards: usize = self.inner.shards.iter().map(|shard| shard.0.lock().bytes()).sum();
        shards + self.inner.hot.bytes()
    }

    /// The most bytes they may take.
    pub fn budget_bytes(&self) -> usize {
        self.inner.budget
    }

    /// What the store has done so far.
    pub fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        for shard in &self.inner.shards {
            sum += shard.0.lock().stats;
        }
        sum
    }

    /// Looks at so many keys per shard and lets go of those that are as good as new. Decisions do this by themselves,
    /// a few keys at a time; call it from a timer if keys should also go while nobody asks.
    pub fn sweep(&self, keys_per_shard: usize) {
        let now = self.inner.clock.now();
        for shard in &self.inner.shards {
            shard.0.lock().look_around(keys_per_shard, now);
        }
    }
}

impl<C: Clock> Store for MemoryStore<C> {
    type Policy = InstalledPolicy;

    fn install(&self, policy: Policy, carry: Carry) -> Result<InstalledPolicy, StoreError> {
        self.install_as(policy, |shard, policy| shard.install(policy, carry))
    }

    fn install_beside(&self, policy: Policy) -> Result<InstalledPolicy, StoreError> {
        let installed = self.install_as(policy, Shard::install_beside)?;
        Ok(InstalledPolicy { beside: Some(installed.version), ..installed })
    }

    fn decide(
        &self,
        asks: &[Ask<'_, InstalledPolicy>],
        verb: Verb,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        future::ready(self.decide_now(asks, &verb))
    }

    fn now(&self) -> Micros {
        self.inner.clock.now()
    }

    fn tell(&self, ask: Ask<'_, InstalledPolicy>, verb: Verb) {
        // Nobody waits for an answer; the only error there is would be about a key too long to have been used before.
        let _ = self.decide_otherwise(&[ask], &verb);
    }
}

impl<C: Clock> Immediate for MemoryStore<C> {
    #[inline]
    fn decide_now(&self, asks: &[Ask<'_, InstalledPolicy>], verb: &Verb) -> Result<Decision, StoreError> {
        Self::decide_now(self, asks, verb)
    }

    #[inline]
    fn verdict_now(&self, ask: &Ask<'_, InstalledPolicy>, take: &Take) -> Result<Verdict, StoreError> {
        Self::verdict_now(self, ask, take)
    }
}

impl<C> Clone for MemoryStore<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl fmt::Debug for InstalledPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstalledPolicy").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for MemoryStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("shards", &self.inner.shards.len())
            .field("budget_bytes", &self.inner.budget)
            .finish_non_exhaustive()
    }
}

/// Comes back from a call in a place of its own. Left alone, the compiler lets the call write where its caller's answer
/// will be, and then the short way has to write all of it there, too; with this, whoever takes the short way and only
/// wants the verdict works out no more. It takes a little more than the answer itself, or the compiler sees through it.
struct Apart<T> {
    answer: T,
    _more: u64,
}

impl<T> Apart<T> {
    fn new(answer: T) -> Self {
        Self { answer, _more: 0 }
    }
}

#[inline]
fn take_locked(shard: &Mutex<Shard>, key: &Hashed<'_>, take: &Take, now: Micros) -> Decision {
    let mut shard = shard.lock();
    match shard.take_known(key, take, now) {
        Some(rule) => Decision::of_one(rule, now),
        None => shard.decide(key, &Verb::Take(*take), now),
    }
}

/// Hot keys pass the lock by, and with it the cleaning that others do; so now and then one of them does its share. Which
/// one is left to the clock and the key, as good as chance: a count would cost a tenth of the decision.
#[inline(always)]
fn is_time_to_look_around(hash: u64, now: Micros) -> bool {
    // Spread, because a clock that ticks in step with the callers would pick the same few keys again and again.
    (hash ^ now.0).wrapping_mul(SPREAD) >> (u64::BITS - LOOK_BITS) == 0
}

#[cold]
#[inline(never)]
fn look_around(shard: &Mutex<Shard>, now: Micros) {
    // Whoever has the lock cleans as well.
    if let Some(mut shard) = shard.try_lock() {
        shard.look_around(LOOK_AT, now);
    }
}

/// 256 MiB.
const DEFAULT_BUDGET: usize = 256 << 20;
/// A shard with less than this could not hold a useful number of keys.
const SMALLEST_SHARD: usize = 16 * 1024;
/// Keys that may be hot at one time: a quarter of a megabyte, which a processor's cache holds.
const HOT_KEYS: usize = 4_096;
/// One in 2^10 hot decisions looks around, at so many slots: as many as decisions under the lock do.
const LOOK_BITS: u32 = 10;
const LOOK_AT: usize = 32;
/// 2^64 divided by the golden ratio: a product with it differs in its upper bits wherever the factor differs.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// The part of the budget that hot slots may take.
const HOT_SHARE: usize = 16;
