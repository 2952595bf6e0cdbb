//! Records of one key: its uses, and by how much faults may exceed the bounds.
//!
//! | event | allowance per rule |
//! |---|---|
//! | failover, empty restart | the limit, and what was reserved for later |
//! | reset | what was used and reserved for later; of buckets also what is held, whose uses are reported after the reset |
//! | the store's clock steps forward | the same; of a bucket, no more than drains in that time |
//! | it steps back | the same for windows, stepwise and counters: a window returns; of others what was reserved |
//! | the quota changes | what is held and reserved beyond the new limit |
//! | a refund, penalty, reset or change | the limit of a window that starts with the first request: it may start elsewhere |
//!
//! Why a reset adds what is held of buckets: a report is not charged before the last change of the bucket, or what has
//! drained until then would drain again. A reset forgets the time of that change, so uses from before it that are reported
//! after it drain once more for the time in between. They were held when it came.

use ratekeeper_core::{
    OnQuotaChange, Policy, Timestamp,
    algorithm::{Algorithm, AnyAlgorithm},
};

use super::{
    checker::{RefundedUse, Use, excess},
    scenario::starts_with_use,
};

pub(super) struct KeyRecords {
    pub(super) uses: Vec<Use>,
    refunds: Vec<RefundedUse>,
    /// The policies, one after another.
    segments: Vec<Segment>,
}

struct Segment {
    since: u64,
    policy: Policy,
    /// Permits beyond the bound of each rule.
    allowed: Vec<u64>,
    /// Whether what was used under the policy before stays used.
    continues: bool,
}

impl KeyRecords {
    pub(super) fn new(policy: &Policy) -> Self {
        let allowed = vec![0; policy.rules().len()];
        let first = Segment { since: 0, policy: policy.clone(), allowed, continues: true };
        Self { uses: Vec::new(), refunds: Vec::new(), segments: vec![first] }
    }

    pub(super) fn admit(&mut self, at: u64, store_at: Timestamp, permits: u64) -> usize {
        let order = self.order();
        self.uses.push(Use { at, store_at, order, permits: permits.cast_signed() });
        self.uses.len() - 1
    }

    pub(super) fn order(&self) -> usize {
        self.uses.len() + self.refunds.len()
    }

    /// A use that did not happen.
    pub(super) fn remove(&mut self, of: usize, permits: u64) {
        self.uses[of].permits -= permits.cast_signed();
        assert!(self.uses[of].permits >= 0, "no more is refunded than was used");
        self.may_start_elsewhere();
    }

    pub(super) fn refund(&mut self, refund: RefundedUse) {
        if self.uses[refund.of].at > refund.at {
            self.remove(refund.of, refund.permits);
        } else {
            self.refunds.push(refund);
            self.may_start_elsewhere();
        }
    }

    /// The state was lost.
    pub(super) fn lose_state(&mut self, now: u64) {
        let ahead = self.ahead(now);
        self.allow(|algorithm| algorithm.limit() + ahead);
    }

    /// The state is cleared, in which this much was used under each rule, while this many permits are held.
    pub(super) fn reset(&mut self, used: &[u64], held: u64, now: u64) {
        let ahead = self.ahead(now);
        if let Some(segment) = self.segments.last_mut() {
            segment.allowed.iter_mut().zip(used).for_each(|(allowed, used)| *allowed += used + ahead);
        }
        let drains =
            |algorithm: &AnyAlgorithm| matches!(algorithm, AnyAlgorithm::Bucket(_) | AnyAlgorithm::Stepwise(_));
        self.allow(|algorithm| if drains(algorithm) { held } else { 0 });
        self.may_start_elsewhere();
    }

    pub(super) fn step_clock(&mut self, by: i64, now: u64) {
        let ahead = self.ahead(now);
        self.allow(|algorithm| {
            let whole = algorithm.limit() + ahead;
            match algorithm {
                AnyAlgorithm::Bucket(bucket) if by > 0 => {
                    whole.min((by.unsigned_abs() * bucket.drain()).div_ceil(bucket.unit()))
                }
                // A reservation that is cancelled by its time before the step may seem to be the latest.
                AnyAlgorithm::Bucket(_) | AnyAlgorithm::Log(_) if by < 0 => ahead,
                _ => whole,
            }
        });
    }

    pub(super) fn may_start_elsewhere(&mut self) {
        self.allow(|algorithm| if starts_with_use(algorithm) { algorithm.limit() } else { 0 });
    }

    /// The policy changes while this many permits are held.
    pub(super) fn change_quota(&mut self, policy: &Policy, how: OnQuotaChange, held: u64, now: u64) {
        self.may_start_elsewhere();
        let ahead = self.ahead(now);
        let before = self.segments.last().map_or(&[][..], |segment| &segment.allowed);
        let rules = policy.rules().iter().zip(before);
        let allowed = rules.map(|(rule, before)| before + ahead + held.saturating_sub(rule.algorithm().limit()));
        let (allowed, continues) = (allowed.collect(), how == OnQuotaChange::Keep);
        self.segments.push(Segment { since: now, policy: policy.clone(), allowed, continues });
        self.may_start_elsewhere();
    }

    /// The first rule whose bound was exceeded by more than what is allowed.
    pub(super) fn check(&self) -> Result<(), String> {
        for (index, segment) in self.segments.iter().enumerate() {
            let until = self.segments.get(index + 1).map_or(u64::MAX, |next| next.since);
            self.check_span(&segment.policy, &segment.allowed, segment.since, until)?;
        }
        if let [first, second] = &self.segments[..]
            && second.continues
        {
            // Across the change, the larger quota holds.
            let limit = |segment: &Segment| segment.policy.rules()[0].rule().quota().limit();
            let larger = if limit(first) > limit(second) { first } else { second };
            self.check_span(&larger.policy, &second.allowed, 0, u64::MAX)?;
        }
        Ok(())
    }

    fn check_span(&self, policy: &Policy, allowed: &[u64], since: u64, until: u64) -> Result<(), String> {
        let is_inside = |at: u64| since <= at && at < until;
        let mut uses = self.uses.clone();
        uses.iter_mut().filter(|one| !is_inside(one.at)).for_each(|one| one.permits = 0);
        let refunds: Vec<_> = self.refunds.iter().filter(|one| is_inside(one.at)).copied().collect();
        for (rule, &allowed) in policy.rules().iter().zip(allowed) {
            if rule.is_shadow() {
                continue;
            }
            let over = excess(rule.algorithm(), &uses, &refunds);
            if over > allowed {
                return Err(format!("{over} too many, {allowed} allowed, {:?} in {since}..{until}", rule.rule()));
            }
        }
        Ok(())
    }

    fn allow(&mut self, permits: impl Fn(&AnyAlgorithm) -> u64) {
        if let Some(segment) = self.segments.last_mut() {
            for (rule, allowed) in segment.policy.rules().iter().zip(&mut segment.allowed) {
                *allowed += permits(rule.algorithm());
            }
        }
    }

    /// Permits that were reserved for later.
    fn ahead(&self, now: u64) -> u64 {
        let later = self.uses.iter().filter(|one| one.at > now);
        later.map(|one| one.permits.cast_unsigned()).sum()
    }
}
