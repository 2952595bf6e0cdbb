//! The parameters of a rule in the `RateLimit` fields: quota `q`, window `w` and effective window `t`.

use std::fmt::Write;

use ratekeeper_core::{
    AlgorithmSpec, Period, ReadyRule, Refill, RuleDecision, Span, Verdict,
    algorithm::{Algorithm as _, AnyAlgorithm},
};

use super::structured;

/// The numbers of a rule that header fields need.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleParameters {
    quota: u64,
    /// Whole seconds; `None` for a rule without a window, one shorter than a second, or a calendar month.
    window: Option<u64>,
    replenishment: Replenishment,
}

/// How used permits become available again.
#[derive(Clone, Copy, Debug)]
enum Replenishment {
    /// One by one, `limit` every `per`.
    Continuous { capacity: u64, limit: u64, per: Span },
    /// `lump` at a time, every `per`.
    Stepwise { capacity: u64, lump: u64, per: Span },
    /// All of them at `reset_after`. Some may be available earlier, at times the decision does not contain.
    AtReset,
    /// When a lease is released.
    OnRelease,
}

impl RuleParameters {
    pub(super) fn of(rule: &ReadyRule) -> Self {
        let quota = rule.rule().quota();
        let (limit, capacity) = (quota.limit(), rule.algorithm().limit());
        let per = match quota.period() {
            Period::Span(span) => Some(span),
            Period::Month | Period::Year => None,
        };
        let replenishment = match (rule.rule().algorithm(), per) {
            (AlgorithmSpec::Concurrency { .. }, _) => Replenishment::OnRelease,
            (AlgorithmSpec::TokenBucket { refill: Refill::Stepwise }, Some(per)) => {
                Replenishment::Stepwise { capacity, lump: limit, per }
            }
            (AlgorithmSpec::TokenBucket { .. } | AlgorithmSpec::LeakyBucket { .. }, Some(per)) => {
                Replenishment::Continuous { capacity, limit, per }
            }
            _ => Replenishment::AtReset,
        };
        // A burst above the limit takes longer than the period to refill, so quota and window are those of the burst. A
        // burst below it does not change how many permits a period has.
        let (quota, window) =
            if capacity > limit { (capacity, per.map(|per| scale_up(per, capacity, limit))) } else { (limit, per) };
        let window = match rule.algorithm() {
            AnyAlgorithm::Leases(_) | AnyAlgorithm::AutoBlock(_) => None,
            _ => window.filter(|window| *window >= Span::SECOND).map(Span::as_secs_ceil),
        };
        Self { quota, window, replenishment }
    }

    /// Appends the rule to `RateLimit-Policy`.
    pub(super) fn write_policy(&self, list: &mut String, quoted_name: &str) {
        structured::separate(list);
        // Writing to a string cannot fail.
        let _ = write!(list, "{quoted_name};q={}", self.quota);
        if matches!(self.replenishment, Replenishment::OnRelease) {
            list.push_str(r#";qu="concurrent-requests""#);
        }
        if let Some(window) = self.window {
            let _ = write!(list, ";w={window}");
        }
    }

    /// The draft's `t`: the time during which no more than `remaining` may be used. It is the retry time of a denial, the
    /// time to the next permit of a bucket, and the time to the initial state otherwise.
    pub(super) fn effective_window(&self, decision: &RuleDecision) -> Option<Span> {
        if let Verdict::Deny { retry_after } = decision.verdict {
            return Some(retry_after);
        }
        let reset_after = decision.reset_after;
        let window = match self.replenishment {
            Replenishment::OnRelease => return None,
            Replenishment::AtReset => reset_after,
            Replenishment::Continuous { capacity, limit, per } => {
                let after_next = capacity.saturating_sub(decision.remaining).saturating_sub(1);
                reset_after - scale_down(per, after_next, limit)
            }
            Replenishment::Stepwise { capacity, lump, per } => {
                let lumps = capacity.saturating_sub(decision.remaining).div_ceil(lump);
                reset_after - scale_down(per, lumps.saturating_sub(1), 1)
            }
        };
        (window > Span::ZERO).then_some(window)
    }
}

/// `span × count ÷ of`, rounded up.
fn scale_up(span: Span, count: u64, of: u64) -> Span {
    let product = u128::from(span.as_micros()) * u128::from(count);
    Span::from_micros(u64::try_from(product.div_ceil(u128::from(of.max(1)))).unwrap_or(u64::MAX))
}

/// The same rounded down, for subtrahends: the difference must not be too short.
fn scale_down(span: Span, count: u64, of: u64) -> Span {
    let product = u128::from(span.as_micros()) * u128::from(count);
    Span::from_micros(u64::try_from(product / u128::from(of.max(1))).unwrap_or(u64::MAX))
}
