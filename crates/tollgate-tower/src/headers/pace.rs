//! What a rule's quota and window are in the draft's words: `q`, `w` and `t`.

use std::fmt::Write;

use tollgate_core::{
    Algorithm, Micros, Period, ReadyRule, Refill, RuleDecision, Verdict,
    algorithm::{Algorithm as _, Limiting},
};

use super::structured;

/// A rule's numbers, as far as header fields need them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    quota: u64,
    /// Whole seconds; `None` if the rule has no window, one below a second, or one as long as the month is.
    window: Option<u64>,
    comes_back: ComesBack,
}

/// How used permits come back.
#[derive(Clone, Copy, Debug)]
enum ComesBack {
    /// One by one, `limit` every `per`.
    Dripping { capacity: u64, limit: u64, per: Micros },
    /// `lump` at a time, every `per`.
    InLumps { capacity: u64, lump: u64, per: Micros },
    /// All of them when the key has rested; perhaps some earlier, but nobody can say from here.
    WhenRested,
    /// When a holder lets go.
    WhenReleased,
}

impl Pace {
    pub(super) fn of(rule: &ReadyRule) -> Self {
        let quota = rule.rule().quota();
        let (limit, capacity) = (quota.limit(), rule.limiting().limit());
        let per = match quota.period() {
            Period::Span(span) => Some(span),
            Period::Month => None,
        };
        let comes_back = match (rule.rule().algorithm(), per) {
            (Algorithm::Concurrency { .. }, _) => ComesBack::WhenReleased,
            (Algorithm::TokenBucket { refill: Refill::Stepwise }, Some(per)) => {
                ComesBack::InLumps { capacity, lump: limit, per }
            }
            (Algorithm::TokenBucket { .. } | Algorithm::LeakyBucket { .. }, Some(per)) => {
                ComesBack::Dripping { capacity, limit, per }
            }
            _ => ComesBack::WhenRested,
        };
        // A burst above the limit takes longer than the period to come back. One below it does not change how many may
        // go in a period, so the rule is told as it was written.
        let (quota, window) =
            if capacity > limit { (capacity, per.map(|per| times(per, capacity, limit))) } else { (limit, per) };
        let window = match rule.limiting() {
            Limiting::Leases(_) => None,
            _ => window.filter(|window| *window >= Micros::SECOND).map(Micros::as_secs_ceil),
        };
        Self { quota, window, comes_back }
    }

    /// Adds the rule to `RateLimit-Policy`.
    pub(super) fn write_policy(&self, list: &mut String, quoted_name: &str) {
        structured::separate(list);
        // Writing to a string cannot fail.
        let _ = write!(list, "{quoted_name};q={}", self.quota);
        if matches!(self.comes_back, ComesBack::WhenReleased) {
            list.push_str(r#";qu="concurrent-requests""#);
        }
        if let Some(window) = self.window {
            let _ = write!(list, ";w={window}");
        }
    }

    /// The draft's `t`: for how long no more than what remains may be used. The time to the next permit where that can be
    /// told, else until the key is as good as new; for a request that is refused, its wait.
    pub(super) fn effective_window(&self, told: &RuleDecision) -> Option<Micros> {
        if let Verdict::Deny { retry_after } = told.verdict {
            return Some(retry_after);
        }
        let rests = told.reset_after;
        let window = match self.comes_back {
            ComesBack::WhenReleased => return None,
            ComesBack::WhenRested => rests,
            ComesBack::Dripping { capacity, limit, per } => {
                let later = capacity.saturating_sub(told.remaining).saturating_sub(1);
                rests - times_down(per, later, limit)
            }
            ComesBack::InLumps { capacity, lump, per } => {
                let lumps = capacity.saturating_sub(told.remaining).div_ceil(lump);
                rests - times_down(per, lumps.saturating_sub(1), 1)
            }
        };
        (window > Micros::ZERO).then_some(window)
    }
}

/// `span × count ÷ of`, rounded up.
fn times(span: Micros, count: u64, of: u64) -> Micros {
    let product = u128::from(span.get()) * u128::from(count);
    Micros(u64::try_from(product.div_ceil(u128::from(of.max(1)))).unwrap_or(u64::MAX))
}

/// The same rounded down, where it is taken away from a wait that must not get too short.
fn times_down(span: Micros, count: u64, of: u64) -> Micros {
    let product = u128::from(span.get()) * u128::from(count);
    Micros(u64::try_from(product / u128::from(of.max(1))).unwrap_or(u64::MAX))
}
