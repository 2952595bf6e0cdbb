//! The record of a decision: denied keys, recent callers and refusals, and the decision log.
//!
//! An ordinary admission costs one relaxed load and, with a decision log, one hash of its time.

use ratekeeper_core::{DecidedBy, Decision, Policy, RuleDecision, Timestamp, Verdict};

use super::{
    Denial, PolicyMeters, Telemetry, decision_log::LoggedDecision, policy_meters::deciding_rule, recent::RecentRefusal,
};

/// A decision about one key under one policy.
#[derive(Clone, Copy)]
pub(crate) struct DecisionRecord<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) key: &'a str,
    pub(crate) cost: u64,
    /// The decisions of the policy's rules.
    pub(crate) rules: &'a [RuleDecision],
    pub(crate) decision: &'a Decision,
    /// The verdict of these rules.
    pub(crate) verdict: Verdict,
    pub(crate) denial: Option<Denial>,
}

impl Telemetry {
    /// Records a decision that was counted by these meters.
    #[inline]
    pub(crate) fn record(&self, meters: &PolicyMeters, record: DecisionRecord<'_>) {
        let at = record.decision.decided_at;
        meters.callers().note(record.key, at, matches!(record.verdict, Verdict::Allow { .. }));
        if let Some(denial) = record.denial {
            self.record_denial(denial, &record);
        }
        if let Some(log) = &self.decision_log
            && log.wants(at, record.denial.is_some())
        {
            log.add(at, &record.logged());
        }
    }

    /// Records a request that a ban refuses, or would refuse outside shadow mode.
    pub(crate) fn record_ban(&self, denial: Denial, names: [&str; 3], key: &str, cost: u64, at: Timestamp) {
        let [domain, policy, rule] = names;
        self.top_denied.note(denial, domain, policy, key);
        self.recent_refusals.note(at, || RecentRefusal {
            at,
            domain: domain.into(),
            policy: policy.into(),
            rule: rule.into(),
            key: key.into(),
            denial,
            verdict: Verdict::Never,
            cost,
            remaining: 0,
            limit: 0,
            source: None,
        });
        if let Some(log) = &self.decision_log {
            let source = "refused_always";
            let verdict = Verdict::Never;
            let (remaining, limit) = (0, 0);
            let denial = Some(denial);
            log.add(at, &LoggedDecision { domain, policy, rule, key, cost, verdict, denial, remaining, limit, source });
        }
    }

    #[cold]
    fn record_denial(&self, denial: Denial, record: &DecisionRecord<'_>) {
        let policy = record.policy;
        self.top_denied.note(denial, policy.domain(), policy.name(), record.key);
        let at = record.decision.decided_at;
        self.recent_refusals.note(at, || {
            let logged = record.logged();
            RecentRefusal {
                at,
                domain: logged.domain.into(),
                policy: logged.policy.into(),
                rule: logged.rule.into(),
                key: logged.key.into(),
                denial,
                verdict: record.denied_verdict(),
                cost: logged.cost,
                remaining: logged.remaining,
                limit: logged.limit,
                source: Some(record.decision.source),
            }
        });
    }
}

impl<'a> DecisionRecord<'a> {
    /// The position of the rule whose numbers are shown: the deciding one, or the shadow rule that would deny.
    fn position(&self) -> Option<usize> {
        match self.denial {
            Some(Denial::Shadow) => self.rules.iter().position(|rule| rule.shadow && !rule.is_allowed()),
            _ => deciding_rule(self.rules, self.verdict),
        }
    }

    /// The verdict of a refusal; that of the shadow rule if only such a rule denies.
    fn denied_verdict(&self) -> Verdict {
        match (self.denial, self.position()) {
            (Some(Denial::Shadow), Some(position)) => self.rules[position].verdict,
            _ => self.verdict,
        }
    }

    fn logged(&self) -> LoggedDecision<'a> {
        let position = self.position();
        let is_blocked = self.decision.decided_by == DecidedBy::Block && !matches!(self.verdict, Verdict::Allow { .. });
        let rule = match position {
            _ if is_blocked => "block",
            Some(position) => self.policy.rules().get(position).map_or("", |rule| rule.name()),
            None => "",
        };
        let numbers = position.and_then(|position| self.rules.get(position));
        let (remaining, limit) = numbers.map_or((0, 0), |rule| (rule.remaining, rule.limit));
        LoggedDecision {
            domain: self.policy.domain(),
            policy: self.policy.name(),
            rule,
            key: self.key,
            cost: self.cost,
            verdict: self.denied_verdict(),
            denial: self.denial,
            remaining,
            limit,
            source: self.decision.source.name(),
        }
    }
}
