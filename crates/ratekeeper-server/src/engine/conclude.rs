//! Conclusion of a request: builds the answer from the store's decision and updates the metrics of takes.

use ratekeeper_core::{
    DecidedBy, Decision, RuleDecision, RuleDecisions, Span, Timestamp, Verb, Verdict, store_api::strictest_denial,
};
use smallvec::SmallVec;

use super::{
    Answer, Engine, Resolution, SubjectAnswer,
    resolve::{Resolved, Target},
};
use crate::{
    request::Request,
    telemetry::{DecisionRecord, Denial},
};

impl Resolved<'_> {
    /// The answer to a request. Takes update the metrics and the list of most denied keys.
    #[inline]
    pub(super) fn conclude(self, request: &Request<'_>, decision: Option<Decision>, engine: &Engine) -> Answer {
        let is_take = matches!(request.verb, Verb::Take(_));
        let decision = if self.refused && is_take { Some(refused(decision, engine.store_time())) } else { decision };
        let mut starts: SmallVec<[usize; 2]> = SmallVec::new();
        let mut start = 0;
        for target in &self.targets {
            starts.push(start);
            start += target.entry.policy.rules().len();
        }
        let target_of: SmallVec<[Option<usize>; 2]> = self.subjects.iter().map(|(_, target)| *target).collect();
        let subjects = self.subjects.into_iter().map(|(mut answer, target)| {
            if is_take && answer.resolution == Resolution::RefusedAlways && answer.over_limit {
                let policy = answer.ban.as_ref().map_or("", |ban| &ban.policy);
                let denial = if answer.is_shadowed() { Denial::Shadow } else { Denial::Banned };
                let rule = answer.ban.as_ref().map_or("", |ban| &ban.rule);
                let names = [request.domain, policy, rule];
                let at = decision.as_ref().map_or_else(|| engine.store_time(), |decision| decision.decided_at);
                engine.telemetry().record_ban(denial, names, &answer.key, answer.cost, at);
                let source = Resolution::RefusedAlways.name();
                engine.telemetry().refused_always([request.domain, policy, rule], source, answer.is_shadowed());
            }
            if let (Some(target), Some(decision)) = (target, &decision) {
                let (start, len) = (starts[target], self.targets[target].entry.policy.rules().len());
                let rules = rules_at(decision, start, len);
                answer.rules = start..start + rules.len();
                answer.verdict = verdict_of(rules, decision);
                answer.over_limit = rules.iter().any(|rule| !rule.is_allowed());
            }
            answer
        });
        let mut answer = Answer { subjects: subjects.collect(), estimated_wait: None, decision };
        answer.estimated_wait =
            answer.decision.as_ref().and_then(|decision| estimated_wait(&self.targets, &starts, decision));
        let quotas_refuse = is_take && !self.shadow && answer.refuse_over_all_quotas(|| engine.store_time());
        if let (Some(decision), true) = (&answer.decision, is_take) {
            for (index, (target, start)) in self.targets.iter().zip(&starts).enumerate() {
                let rules = rules_at(decision, *start, target.entry.policy.rules().len());
                let mut verdict = verdict_of(rules, decision);
                let quota = |(subject, at): (&SubjectAnswer, &Option<usize>)| subject.quota_mode && *at == Some(index);
                if quotas_refuse && answer.subjects.iter().zip(&target_of).any(quota) {
                    verdict = decision.verdict;
                }
                target.entry.meters.count(rules, decision, verdict);
                let (policy, denial) = (&*target.entry.policy, denial(rules, verdict));
                let (key, cost) = (&*target.key, target.cost);
                let record = DecisionRecord { policy, key, cost, rules, decision, verdict, denial };
                engine.telemetry().record(&target.entry.meters, record);
            }
        }
        answer
    }
}

/// The estimated wait of a denied request: that of the target with the longest, where targets without leases count with
/// the certain time.
#[inline]
fn estimated_wait(targets: &[Target<'_>], starts: &[usize], decision: &Decision) -> Option<Span> {
    let Verdict::Deny { retry_after: certain } = decision.verdict else { return None };
    let (mut longest, mut is_estimate) = (Span::ZERO, false);
    for (target, start) in targets.iter().zip(starts) {
        let policy = &target.entry.policy;
        let rules = rules_at(decision, *start, policy.rules().len());
        let estimate = target.entry.meters.hold_times().estimated_wait_of(policy, rules, decision, target.cost);
        is_estimate |= estimate.is_some();
        let wait = estimate.or_else(|| strictest_denial(rules).and_then(|(_, verdict)| verdict.retry_after_span()));
        longest = longest.max(wait.unwrap_or_default());
    }
    is_estimate.then_some(longest.min(certain))
}

/// The decision for a request that a ban refuses.
fn refused(decision: Option<Decision>, now: Timestamp) -> Decision {
    match decision {
        Some(decision) => decision.with_verdict(Verdict::Never, DecidedBy::Nothing),
        None => Decision::new(Verdict::Never, DecidedBy::Nothing, RuleDecisions::collect([]), now),
    }
}

/// The decisions of one target's rules. Empty if a reload has changed the number of the policy's rules since the target
/// was resolved.
fn rules_at(decision: &Decision, start: usize, len: usize) -> &[RuleDecision] {
    decision.rules.get(start..start + len).unwrap_or_default()
}

/// The kind of denial that is recorded for a key, if any.
fn denial(rules: &[RuleDecision], verdict: Verdict) -> Option<Denial> {
    match verdict {
        Verdict::Allow { .. } => rules.iter().any(|rule| rule.shadow && !rule.is_allowed()).then_some(Denial::Shadow),
        Verdict::Deny { .. } | Verdict::Never => Some(Denial::Refused),
    }
}

/// The verdict of these rules alone.
#[inline]
fn verdict_of(rules: &[RuleDecision], decision: &Decision) -> Verdict {
    match (strictest_denial(rules), decision.decided_by) {
        (Some((_, verdict)), _) => verdict,
        // A block denies the key independently of its rules.
        (None, DecidedBy::Block) => decision.verdict,
        (None, _) => Verdict::Allow { wait: decision.verdict.wait() },
    }
}
