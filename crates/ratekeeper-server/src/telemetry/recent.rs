//! Recent callers of each policy and recent refusals of the server, for the admin port.
//!
//! Both lists are bounded and sampled under load, so that a decision costs one relaxed load: a policy notes at most one
//! caller per [`CALLER_INTERVAL`], and the server at most [`REFUSALS_PER_SECOND`] refusals.
//!
//! Bound: [`CALLERS`] keys for each of [`LISTS`] policies, and [`REFUSALS`] refusals; 256 bytes of a key are kept.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use ratekeeper_core::{Source, Span, Timestamp, Verdict};
use ratekeeper_http::explain::span;

use super::{
    rate_gate::RateGate,
    top::{Denial, cut},
};

/// The latest keys of one policy.
#[derive(Debug)]
pub(crate) struct RecentCallers {
    /// The time from which the next caller is noted, in microseconds.
    next: AtomicU64,
    list: Mutex<Vec<RecentCaller>>,
    lists_left: Arc<AtomicUsize>,
}

/// A key that was decided about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecentCaller {
    /// The key, cut.
    pub key: Box<str>,
    /// The store's time of its latest noted decision.
    pub at: Timestamp,
    /// Whether that request was allowed.
    pub allowed: bool,
}

/// A refused request.
#[derive(Clone, Debug)]
pub struct RecentRefusal {
    /// The store's time.
    pub at: Timestamp,
    /// Its domain.
    pub domain: Box<str>,
    /// The policy or ban.
    pub policy: Box<str>,
    /// The rule that refused; `block` for a block.
    pub rule: Box<str>,
    /// The key, cut.
    pub key: Box<str>,
    /// How it was refused.
    pub denial: Denial,
    /// Deny or never.
    pub verdict: Verdict,
    /// Permits that were asked for.
    pub cost: u64,
    /// Permits that would have passed.
    pub remaining: u64,
    /// The most that can pass at once.
    pub limit: u64,
    /// Which part decided; `None` for a ban.
    pub source: Option<Source>,
}

/// The latest refusals of all policies.
#[derive(Debug, Default)]
pub struct RecentRefusals {
    gate: RateGate,
    list: Mutex<VecDeque<RecentRefusal>>,
}

impl RecentCallers {
    pub(crate) fn new(lists_left: Arc<AtomicUsize>) -> Self {
        Self { next: AtomicU64::new(0), list: Mutex::default(), lists_left }
    }

    /// Notes a caller, unless another was noted just now.
    #[inline]
    pub(crate) fn note(&self, key: &str, at: Timestamp, allowed: bool) {
        let next = self.next.load(Relaxed);
        // A clock that was set back is followed.
        if at.as_micros() >= next || next - at.as_micros() > 2 * CALLER_INTERVAL.as_micros() && next != NEVER {
            self.note_now(key, at, allowed);
        }
    }

    #[cold]
    fn note_now(&self, key: &str, at: Timestamp, allowed: bool) {
        // Another thread notes one at this moment.
        let Some(mut list) = self.list.try_lock() else { return };
        if list.capacity() == 0 {
            let taken = self.lists_left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
            if taken.is_err() {
                self.next.store(NEVER, Relaxed);
                return;
            }
            list.reserve_exact(CALLERS);
        }
        self.next.store((at + CALLER_INTERVAL).as_micros(), Relaxed);
        let key = cut(key);
        let caller = match list.iter().position(|caller| &*caller.key == key) {
            Some(known) => RecentCaller { at, allowed, ..list.remove(known) },
            None => RecentCaller { key: key.into(), at, allowed },
        };
        list.truncate(CALLERS - 1);
        list.insert(0, caller);
    }

    /// The latest first.
    pub(crate) fn list(&self) -> Vec<RecentCaller> {
        self.list.lock().clone()
    }
}

impl Drop for RecentCallers {
    fn drop(&mut self) {
        if self.list.get_mut().capacity() > 0 {
            self.lists_left.fetch_add(1, Relaxed);
        }
    }
}

impl RecentRefusal {
    /// The reason in words.
    pub fn reason(&self) -> String {
        let Self { rule, cost, remaining, limit, .. } = self;
        match (self.denial, self.verdict) {
            (Denial::Banned, _) => "the rule file refuses every request".to_owned(),
            (_, Verdict::Never) => format!("rule {rule}: a cost of {cost}, and {limit} is the most at once"),
            (_, verdict) if &**rule == "block" => {
                format!("the key is blocked for {}", span(verdict.retry_after_span().unwrap_or_default()))
            }
            (_, verdict) => format!(
                "rule {rule}: {remaining} of {limit} left for a cost of {cost}, passes in {}",
                span(verdict.retry_after_span().unwrap_or_default())
            ),
        }
    }
}

impl RecentRefusals {
    /// Notes a refusal, unless there were too many in this second.
    pub(crate) fn note(&self, at: Timestamp, refusal: impl FnOnce() -> RecentRefusal) {
        if !self.gate.passes(at, REFUSALS_PER_SECOND) {
            return;
        }
        let mut refusal = refusal();
        refusal.key = cut(&refusal.key).into();
        let mut list = self.list.lock();
        list.truncate(REFUSALS - 1);
        list.push_front(refusal);
    }

    /// At most this many, the latest first.
    pub fn latest(&self, most: usize) -> Vec<RecentRefusal> {
        self.list.lock().iter().take(most).cloned().collect()
    }
}

/// Keys that are kept for a policy.
pub(crate) const CALLERS: usize = 20;
/// Policies that keep callers. Those beyond keep none.
pub(crate) const LISTS: usize = 4_096;
/// Refusals that are kept.
const REFUSALS: usize = 200;
/// The time between two callers of a policy that are noted.
const CALLER_INTERVAL: Span = Span::from_millis(1);
/// Refusals that are noted in a second.
const REFUSALS_PER_SECOND: u32 = 1_000;
/// No caller is ever noted.
const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + millis)
    }

    fn keys(callers: &RecentCallers) -> Vec<String> {
        callers.list().iter().map(|caller| caller.key.to_string()).collect()
    }

    #[test]
    fn the_latest_callers_are_first_and_each_key_is_listed_once() {
        let callers = RecentCallers::new(Arc::new(AtomicUsize::new(1)));
        for (millis, key) in ["a", "b", "a", "c"].into_iter().enumerate() {
            callers.note(key, at(millis as u64), key != "c");
        }
        assert_eq!(keys(&callers), ["c", "a", "b"]);
        assert_eq!(callers.list()[1].at, at(2));
        assert!(!callers.list()[0].allowed);
        for millis in 10..100 {
            callers.note(&format!("flood {millis}"), at(millis), true);
        }
        assert_eq!(keys(&callers).len(), CALLERS);
        callers.note("same millisecond", at(99), true);
        assert!(!keys(&callers).contains(&"same millisecond".to_owned()), "sampled");
        callers.note("the clock was set back", at(0), true);
        assert_eq!(keys(&callers)[0], "the clock was set back");
    }

    #[test]
    fn policies_beyond_the_bound_keep_no_callers() {
        let left = Arc::new(AtomicUsize::new(1));
        let (first, second) = (RecentCallers::new(Arc::clone(&left)), RecentCallers::new(Arc::clone(&left)));
        for callers in [&first, &second] {
            callers.note("a", at(0), true);
            callers.note("a", at(5), true);
        }
        assert_eq!((first.list().len(), second.list().len()), (1, 0));
        drop(first);
        assert_eq!(left.load(Relaxed), 1, "a policy that is removed makes room");
    }

    #[test]
    fn refusals_are_bounded_in_number_and_rate() {
        let refusals = RecentRefusals::default();
        let refusal = |key: String, at| RecentRefusal {
            at,
            domain: "d".into(),
            policy: "p".into(),
            rule: "r".into(),
            key: key.into(),
            denial: Denial::Refused,
            verdict: Verdict::Never,
            cost: 1,
            remaining: 0,
            limit: 1,
            source: None,
        };
        for second in 0..3 {
            for number in 0..2_000 {
                let at = at(second * 1_000);
                refusals.note(at, || refusal(format!("{second} {number}"), at));
            }
        }
        let latest = refusals.latest(1_000);
        assert_eq!(latest.len(), REFUSALS);
        assert_eq!(&*latest[0].key, "2 999", "the first thousand of the last second");
    }
}
