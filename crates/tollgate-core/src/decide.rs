//! Several rules, perhaps of several keys, decided at once.
//!
//! First every rule says when the cost could go. The request goes at the earliest moment that suits all of them, if
//! the caller will wait that long; then each rule is charged as of that moment. If one of them refuses, none is
//! charged, and those that would have let it pass say so with their true numbers. (Rules that count refused requests
//! are the exception; see [`refused`](crate::refused).)
//!
//! Shadow rules are asked and counted like the others, but nobody waits for them and nobody is refused by them.

use smallvec::SmallVec;

use crate::{
    algorithm::{Algorithm, Bucket, Charge, Limiting, Look, Meter, Poured, State, Tried, Weighed, stepped_back},
    bounds::MAX_TIME,
    decision::{DecidedBy, Decision, RuleDecision, Source, Verdict},
    policy::{Block, Policy, ReadyRule, Subject},
    refused::{charge_what_is_left, weigh},
    rules_told::RulesTold,
    time::Micros,
    verb::{Take, Verb},
};

/// One key among those a request is decided for.
pub struct Party<'a> {
    /// Its rules.
    pub policy: &'a Policy,
    /// The latest moment somebody was told to wait for.
    pub promised: &'a mut Micros,
    /// Whether everything is refused for a while.
    pub block: &'a mut Block,
    /// One state per rule.
    pub states: &'a mut [State],
    /// How many times the cost of the take it is charged; 0 if it is only looked at.
    pub times: u64,
}

/// A decision, and whether anything is to be stored for it.
#[derive(Debug)]
#[must_use]
pub struct Step {
    /// The answer.
    pub decision: Decision,
    /// Whether a state was changed. Denials and peeks change none, unless a rule counts refused requests or the clock has
    /// stepped back far.
    pub changed: bool,
}

impl Policy {
    /// Decides anything about one key.
    pub fn decide(&self, subject: &mut Subject, verb: &Verb, now: Micros) -> Step {
        debug_assert_eq!(subject.states.len(), self.rules().len(), "the subject belongs to this policy");
        let mut party = self.party(subject);
        match verb {
            Verb::Take(take) => take_together(std::slice::from_mut(&mut party), take, now),
            other => party.amend(other, now.min(MAX_TIME)),
        }
    }

    /// A key with its rules, ready to be decided about together with others.
    pub fn party<'a>(&'a self, subject: &'a mut Subject) -> Party<'a> {
        let Subject { promised, block, states, .. } = subject;
        Party { policy: self, promised, block, states, times: 1 }
    }
}

impl Policy {
    /// The common case without the machinery: one enforcing rule whose state is a meter, nobody waiting, no block.
    /// `None` if this policy is another kind. The answer is the same as [`decide`](Self::decide)'s.
    #[inline(always)]
    pub fn take_metered(&self, meter: &mut Meter, take: &Take, now: Micros) -> Option<Metered> {
        let [rule] = self.rules() else { return None };
        if rule.is_shadow() {
            return None;
        }
        let alone = Alone { horizon: self.horizon(), counts_refused: rule.counts_refused() };
        match rule.limiting() {
            Limiting::Bucket(bucket) => Some(alone.take(bucket, meter, take, now)),
            Limiting::Stepwise(stepwise) => Some(alone.take(stepwise, meter, take, now)),
            Limiting::Window(window) => Some(alone.take(window, meter, take, now)),
            Limiting::Log(_) | Limiting::Counter(_) | Limiting::Leases(_) => None,
        }
    }
}

/// What [`Policy::take_metered`] did.
#[derive(Debug)]
#[must_use]
pub struct Metered {
    /// The answer, to be made a [`Decision`] of by [`Decision::of_one`].
    pub rule: RuleDecision,
    /// Whether the meter was changed.
    pub changed: bool,
    /// When the permits go, if that is later than now: a promise to keep.
    pub promised: Option<Micros>,
}

/// One rule that has no other to agree with.
#[derive(Clone, Copy)]
struct Alone {
    horizon: Micros,
    counts_refused: bool,
}

impl Alone {
    #[inline(always)]
    fn take<A: Algorithm>(self, algorithm: &A, state: &mut A::State, take: &Take, now: Micros) -> Metered {
        let Self { horizon, counts_refused } = self;
        let now = now.min(MAX_TIME);
        if take.max_wait == Micros::ZERO
            && !counts_refused
            && let Some(tried) = algorithm.try_quickly(state, take.cost, now)
        {
            let rule = told_at_once(algorithm, tried);
            return Metered { rule, changed: rule.is_allowed(), promised: None };
        }
        let moved = algorithm.follow(state, now) > Micros::ZERO;
        let (mut charged, mut promised) = (false, None);
        let mut verdict = if take.cost > algorithm.limit() {
            Verdict::Never
        } else {
            let weighed = weigh(algorithm, state, take.cost, counts_refused, now);
            let verdict = answer(weighed, take, horizon, now);
            if let Verdict::Allow { .. } = verdict
                && take.cost > 0
            {
                let at = weighed.go_at;
                algorithm.charge(state, Charge { cost: take.cost, at, lease: take.lease }, now);
                charged = true;
                promised = (at > now).then_some(at);
            }
            verdict
        };
        let mut look = algorithm.look(state, now);
        if counts_refused && !matches!(verdict, Verdict::Allow { .. }) {
            let cost = look.remaining.min(take.cost);
            if cost > 0 {
                algorithm.charge(state, Charge { cost, at: now, lease: take.lease }, now);
                charged = true;
                look = algorithm.look(state, now);
                if let Verdict::Deny { .. } = verdict {
                    verdict = answer(algorithm.weigh(state, take.cost, now), take, horizon, now);
                }
            }
        }
        let (limit, remaining, reset_after) = (algorithm.limit(), look.remaining, look.rests_at - now);
        let rule = RuleDecision { verdict, limit, remaining, reset_after, shadow: false };
        Metered { rule, changed: charged || moved, promised }
    }
}

/// The one rule of a policy that is a bucket, enforced, not shaped, and counts no refusals: what most policies are. It fits in a
/// store's own handle of the policy, and decides without looking anything up.
#[derive(Clone, Copy, Debug)]
pub struct PlainBucket(Bucket);

impl PlainBucket {
    /// The bucket of a policy that is nothing else.
    pub fn of(policy: &Policy) -> Option<Self> {
        match policy.rules() {
            [rule] if !rule.is_shadow() && !rule.counts_refused() => match rule.limiting() {
                Limiting::Bucket(bucket) if !bucket.is_shaped() => Some(Self(*bucket)),
                _ => None,
            },
            _ => None,
        }
    }

    /// A take by somebody who does not wait, while the clock runs forward: decided, and neither written nor told yet.
    /// `None` where there is more to say; that is for [`Policy::take_metered`].
    #[inline(always)]
    pub fn take(&self, meter: Meter, take: &Take, now: Micros) -> Option<PlainTake> {
        if take.max_wait > Micros::ZERO {
            return None;
        }
        self.0.pour(&meter, take.cost, now.min(MAX_TIME)).map(PlainTake)
    }

    /// What the meter is to be from now on, if the take is allowed. Else it stays as it was.
    #[inline(always)]
    pub fn charged(&self, PlainTake(poured): PlainTake, now: Micros) -> Option<Meter> {
        self.0.charged(poured, now.min(MAX_TIME))
    }

    /// The verdict alone.
    #[inline(always)]
    pub fn verdict(&self, PlainTake(poured): PlainTake) -> Verdict {
        verdict_at_once(self.0.retry_after(poured))
    }

    /// The answer in full.
    #[inline(always)]
    pub fn tell(&self, PlainTake(poured): PlainTake) -> RuleDecision {
        told_at_once(&self.0, self.0.tried(poured))
    }
}

/// A take under a [`PlainBucket`] on its way: whoever shares the meter with others writes it first, and tells then.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct PlainTake(Poured);

#[inline(always)]
fn told_at_once(algorithm: &impl Algorithm, Tried { retry_after, remaining, reset_after }: Tried) -> RuleDecision {
    let verdict = verdict_at_once(retry_after);
    RuleDecision { verdict, limit: algorithm.limit(), remaining, reset_after, shadow: false }
}

#[inline(always)]
fn verdict_at_once(retry_after: Micros) -> Verdict {
    if retry_after == Micros::ZERO { Verdict::Allow { wait: Micros::ZERO } } else { Verdict::Deny { retry_after } }
}

/// What a rule answers that could let the request pass at these moments.
#[inline(always)]
fn answer(Weighed { free_at, go_at }: Weighed, take: &Take, horizon: Micros, now: Micros) -> Verdict {
    let (free_in, go_in) = (free_at - now, go_at - now);
    if take.whole_wait && (go_in > take.max_wait || go_in > horizon) {
        Verdict::Deny { retry_after: go_in }
    } else if free_in > take.max_wait || go_in > horizon {
        Verdict::Deny { retry_after: free_in.max(go_in - horizon) }
    } else {
        Verdict::Allow { wait: go_in }
    }
}

/// Decides one take for several keys: all of them, or none.
pub fn take_together(parties: &mut [Party<'_>], take: &Take, now: Micros) -> Step {
    let now = now.min(MAX_TIME);
    let mut weighing = Weighing::start(now);
    let mut moved = false;
    for party in &mut *parties {
        moved |= party.follow(now);
        party.weigh(&take.times(party.times), now, &mut weighing);
    }
    let at = weighing.go_at;
    let refused = weighing.refuses(take, now);
    let wanted = take.cost > 0 && parties.iter().any(|party| party.times > 0);
    let charged = wanted && !refused;
    let counts = wanted && parties.iter().any(|party| party.policy.counts_refused());
    let mut counted = false;
    if charged {
        let mut weighed = weighing.weighed.iter();
        for party in &mut *parties {
            party.charge(&take.times(party.times), &mut weighed, at, now);
        }
    } else if counts {
        for party in &mut *parties {
            counted |= party.count_refused(&take.times(party.times), now);
        }
    }
    if counts {
        for party in &*parties {
            party.weigh_after(&take.times(party.times), now, &mut weighing);
        }
    }
    let rules = weighing.tell(parties.iter().flat_map(|party| party.looks(now)), take, refused, now);
    let (verdict, decided_by) = weighing.conclude(&rules, refused, now);
    let lease = (charged && parties.iter().any(|party| party.policy.holds())).then_some(take.lease);
    let decision = Decision { verdict, decided_by, source: Source::Store, decided_at: now, lease, rules };
    Step { decision, changed: charged || counted || moved }
}

/// What the rules have said so far.
pub(crate) struct Weighing {
    /// Each rule's answer; `None` where the cost outweighs the limit.
    weighed: SmallVec<[Option<Weighed>; 3]>,
    /// The same once refused requests were counted; empty where no rule counts them.
    after: SmallVec<[Option<Weighed>; 3]>,
    /// How long the enforcing rules hold the request up after that.
    held_up: Micros,
    /// The first moment at which all enforcing rules let it pass.
    free_at: Micros,
    /// The moment it goes.
    go_at: Micros,
    never: bool,
    blocked_until: Micros,
    horizon: Micros,
}

impl Weighing {
    #[inline]
    pub(crate) fn start(now: Micros) -> Self {
        Self {
            weighed: SmallVec::new(),
            after: SmallVec::new(),
            held_up: Micros::ZERO,
            free_at: now,
            go_at: now,
            never: false,
            blocked_until: Micros::ZERO,
            horizon: Micros(u64::MAX),
        }
    }

    #[inline]
    fn refuses(&self, take: &Take, now: Micros) -> bool {
        let beyond = |moment: Micros, span: Micros| moment - now > span;
        self.never
            || self.blocked_until > now
            || beyond(self.free_at, take.max_wait)
            || (take.whole_wait && beyond(self.go_at, take.max_wait))
            || beyond(self.go_at, self.horizon)
    }

    /// One rule's answer.
    #[inline]
    pub(crate) fn add(&mut self, rule: &ReadyRule, weighed: Option<Weighed>) {
        self.weighed.push(weighed);
        if rule.is_shadow() {
            return;
        }
        match weighed {
            Some(weighed) => {
                self.free_at = self.free_at.max(weighed.free_at);
                self.go_at = self.go_at.max(weighed.go_at);
            }
            None => self.never = true,
        }
    }

    /// What the next rule to be [added again](Self::add_after) said before.
    pub(crate) fn before(&self) -> Option<Weighed> {
        self.weighed.get(self.after.len()).copied().flatten()
    }

    /// One rule's answer once a refused take was counted.
    pub(crate) fn add_after(&mut self, rule: &ReadyRule, weighed: Option<Weighed>, take: &Take, now: Micros) {
        self.after.push(weighed);
        if let Some(weighed) = weighed
            && !rule.is_shadow()
            && let Verdict::Deny { retry_after } = answer(weighed, take, self.horizon, now)
        {
            self.held_up = self.held_up.max(retry_after);
        }
    }

    /// What holds for the whole key.
    #[inline]
    pub(crate) fn bound(&mut self, blocked_until: Micros, horizon: Micros) {
        self.blocked_until = self.blocked_until.max(blocked_until);
        self.horizon = self.horizon.min(horizon);
    }

    /// Each rule's numbers as they are now, and what it would have answered alone. One that refused says when it would let
    /// the request pass from now on, which is later if the refusal was counted.
    pub(crate) fn tell<'a>(
        &self,
        looks: impl Iterator<Item = (&'a ReadyRule, Look)>,
        take: &Take,
        refused: bool,
        now: Micros,
    ) -> RulesTold {
        let (mut weighed, mut after) = (self.weighed.iter(), self.after.iter());
        RulesTold::collect(looks.map(|(rule, look)| {
            let after = after.next().copied().flatten();
            let verdict = self.verdict(weighed.next().copied().flatten(), after, take, refused, now);
            told_of(rule, look, verdict, now)
        }))
    }

    #[inline]
    fn verdict(
        &self,
        weighed: Option<Weighed>,
        after: Option<Weighed>,
        take: &Take,
        refused: bool,
        now: Micros,
    ) -> Verdict {
        let Some(weighed) = weighed else {
            return Verdict::Never;
        };
        match answer(weighed, take, self.horizon, now) {
            Verdict::Allow { .. } if refused => Verdict::Allow { wait: Micros::ZERO },
            Verdict::Allow { .. } => Verdict::Allow { wait: self.go_at - now },
            denied => after.map_or(denied, |after| answer(after, take, self.horizon, now)),
        }
    }

    #[inline]
    pub(crate) fn conclude(&self, rules: &[RuleDecision], refused: bool, now: Micros) -> (Verdict, DecidedBy) {
        if !refused {
            return (Verdict::Allow { wait: self.go_at - now }, least_remaining(rules));
        }
        let enforcing = || rules.iter().enumerate().filter(|(_, rule)| !rule.shadow);
        if let Some((index, _)) = enforcing().find(|(_, rule)| rule.verdict == Verdict::Never) {
            return (Verdict::Never, DecidedBy::Rule(index));
        }
        let mut longest = (self.blocked_until - now, DecidedBy::Block);
        for (index, rule) in enforcing() {
            if let Verdict::Deny { retry_after } = rule.verdict
                && retry_after > longest.0
            {
                longest = (retry_after, DecidedBy::Rule(index));
            }
        }
        // A rule that would have let it pass may hold it up longest once the refusal was counted.
        (Verdict::Deny { retry_after: longest.0.max(self.held_up) }, longest.1)
    }
}

/// The rule that speaks for an admitted request.
#[inline]
pub(crate) fn least_remaining(rules: &[RuleDecision]) -> DecidedBy {
    let mut least: Option<(usize, &RuleDecision)> = None;
    for (index, rule) in rules.iter().enumerate() {
        // An enforcing rule speaks before any shadow.
        let tighter =
            |(_, other): (usize, &RuleDecision)| (rule.shadow, rule.remaining) < (other.shadow, other.remaining);
        if least.is_none_or(tighter) {
            least = Some((index, rule));
        }
    }
    least.map_or(DecidedBy::Nothing, |(index, _)| DecidedBy::Rule(index))
}

#[inline]
pub(crate) fn told_of(rule: &ReadyRule, look: Look, verdict: Verdict, now: Micros) -> RuleDecision {
    RuleDecision {
        verdict,
        limit: rule.limiting().limit(),
        remaining: look.remaining,
        reset_after: look.rests_at - now,
        shadow: rule.is_shadow(),
    }
}

impl Party<'_> {
    /// The same key, charged so many times the cost.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Moves everything along with a clock that has stepped back far. Says whether it had to.
    #[inline]
    pub(crate) fn follow(&mut self, now: Micros) -> bool {
        let mut furthest = Micros::ZERO;
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            furthest = furthest.max(rule.limiting().follow(state, now));
        }
        *self.promised = *self.promised - furthest;
        let back = stepped_back(self.block.since, now, Micros::SECOND);
        *self.block = Block { since: self.block.since - back, until: self.block.until - back };
        furthest > Micros::ZERO || back > Micros::ZERO
    }

    /// Every rule with what it may tell.
    pub(crate) fn looks(&self, now: Micros) -> impl Iterator<Item = (&ReadyRule, Look)> {
        self.policy
            .rules()
            .iter()
            .zip(self.states.iter())
            .map(move |(rule, state)| (rule, rule.limiting().look(state, now)))
    }

    #[inline]
    fn weigh(&self, take: &Take, now: Micros, weighing: &mut Weighing) {
        weighing.bound(self.block.until, self.policy.horizon());
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter()) {
            weighing.add(rule, rule.weigh(state, take.cost, now));
        }
    }

    #[inline]
    fn charge<'w>(
        &mut self,
        take: &Take,
        weighed: &mut impl Iterator<Item = &'w Option<Weighed>>,
        at: Micros,
        now: Micros,
    ) {
        for (rule, state) in self.policy.rules().iter().zip(self.states.iter_mut()) {
            let weighed = weighed.next().copied().flatten();
            if take.cost == 0 {
                continue; // only looked at, while other keys are charged
            }
            // A shadow rule that would have refused was not passed, so it is not charged, unless it counts refusals.
            // One that would have made the request wait is charged for when it would have gone.
            let passed = |weighed: &Weighed| !rule.is_shadow() || weighed.free_at - now <= take.max_wait;
            let Some(weighed) = weighed.filter(passed) else {
                if rule.counts_refused() {
                    charge_what_is_left(rule.limiting(), state, take, now);
                }
                continue;
            };
            let at = at.max(weighed.free_at);
            rule.limiting().charge(state, Charge { cost: take.cost, at, lease: take.lease }, now);
        }
        if at > now && take.cost > 0 {
            *self.promised = (*self.promised).max(at);
        }
    }
}
