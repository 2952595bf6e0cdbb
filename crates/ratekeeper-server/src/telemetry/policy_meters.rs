//! Per-policy counter handles, so that counting a decision needs no lookup by label.
//!
//! A policy's handles are created once per rulebook. Each counter is created on first use, or at zero by
//! [`PolicyMeters::create`].

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, OnceLock, atomic::AtomicUsize},
};

use prometheus_client::metrics::{counter::Counter, family::Family};
use ratekeeper_core::{Decision, Policy, RuleDecision, Source, Verdict};
use ratekeeper_http::HoldTimes;

use super::{
    labels::{DecisionLabels, RuleLabels},
    recent::{RecentCaller, RecentCallers},
};

/// The counters of one policy. Clones share them.
#[derive(Clone)]
pub struct PolicyMeters(Arc<Meters>);

/// Numbers of decisions.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// By verdict: allow, deny, never.
    pub verdicts: [u64; VERDICTS],
    /// By source; those that have decided.
    pub sources: BTreeMap<&'static str, u64>,
}

struct Meters {
    domain: String,
    policy: String,
    rules: Vec<String>,
    decisions: Family<DecisionLabels, Counter>,
    shadow_denials: Family<RuleLabels, Counter>,
    /// By rule (the last row is for no rule), verdict and source.
    cells: Box<[OnceLock<Counter>]>,
    /// By rule.
    shadows: Box<[OnceLock<Counter>]>,
    hold_times: HoldTimes,
    callers: RecentCallers,
}

impl PolicyMeters {
    /// The counters of this policy's rules in these families.
    pub(super) fn new(
        policy: &Policy,
        decisions: Family<DecisionLabels, Counter>,
        shadow_denials: Family<RuleLabels, Counter>,
        caller_lists: Arc<AtomicUsize>,
    ) -> Self {
        let rules: Vec<String> = policy.rules().iter().map(|rule| rule.name().to_owned()).collect();
        let cells = (0..(rules.len() + 1) * VERDICTS * SOURCES).map(|_| OnceLock::new()).collect();
        let shadows = rules.iter().map(|_| OnceLock::new()).collect();
        let (domain, policy) = (policy.domain().to_owned(), policy.name().to_owned());
        Self(Arc::new(Meters {
            domain,
            policy,
            rules,
            decisions,
            shadow_denials,
            cells,
            shadows,
            hold_times: HoldTimes::default(),
            callers: RecentCallers::new(caller_lists),
        }))
    }

    /// Creates the counters that every rule needs sooner or later: requests allowed and denied by the store, or denials in
    /// shadow mode. A rate over a counter that appears with its first decision would miss that decision.
    pub(super) fn create(&self, policy: &Policy) {
        for (index, rule) in policy.rules().iter().enumerate() {
            if rule.is_shadow() {
                let _ = self.0.shadow_counter(index);
                continue;
            }
            for verdict in ["allow", "deny"] {
                let labels = self.0.labels(rule.name(), verdict, Source::Store.name());
                let _ = self.0.decisions.get_or_create_owned(&labels);
            }
        }
    }

    /// Counts a decision under the rule that determines it, and the denials of its shadow rules.
    #[inline]
    pub(crate) fn count(&self, rules: &[RuleDecision], decision: &Decision, verdict: Verdict) {
        let meters = &*self.0;
        let rule = deciding_rule(rules, verdict).unwrap_or(meters.rules.len()).min(meters.rules.len());
        let (verdict_at, source_at) = (verdict_index(verdict), source_index(decision.source));
        let cell = &meters.cells[(rule * VERDICTS + verdict_at) * SOURCES + source_at];
        cell.get_or_init(|| meters.counter(rule, verdict, decision.source)).inc();
        for (index, rule) in rules.iter().enumerate() {
            if rule.shadow
                && !rule.is_allowed()
                && let Some(cell) = meters.shadows.get(index)
            {
                cell.get_or_init(|| meters.shadow_counter(index)).inc();
            }
        }
    }

    /// The latest keys of the policy.
    pub(super) fn callers(&self) -> &RecentCallers {
        &self.0.callers
    }

    /// The latest keys of the policy, the latest first.
    pub(crate) fn recent_callers(&self) -> Vec<RecentCaller> {
        self.0.callers.list()
    }

    /// The hold times of leases that this process has granted and released.
    pub(crate) fn hold_times(&self) -> &HoldTimes {
        &self.0.hold_times
    }

    /// Decisions so far, including those by the rules of these overrides.
    pub(crate) fn totals(&self, overrides: &[&Self]) -> Totals {
        let mut totals = Totals::default();
        for rule in self.rules_with(overrides) {
            for (index, verdict) in VERDICT_NAMES.into_iter().enumerate() {
                for source in ALL_SOURCES {
                    let labels = self.0.labels(rule, verdict, source.name());
                    let count = self.0.decisions.get(&labels).map_or(0, |counter| counter.get());
                    totals.verdicts[index] += count;
                    if count > 0 {
                        *totals.sources.entry(source.name()).or_default() += count;
                    }
                }
            }
        }
        totals
    }

    /// Denials by rules in shadow mode.
    pub(crate) fn shadow_denials(&self, overrides: &[&Self]) -> u64 {
        let count =
            |rule: &str| self.0.shadow_denials.get(&self.0.rule_labels(rule)).map_or(0, |counter| counter.get());
        self.rules_with(overrides).into_iter().map(count).sum()
    }

    /// Every rule name that decisions are counted under. The empty name is for decisions without a rule.
    fn rules_with<'a>(&'a self, overrides: &[&'a Self]) -> BTreeSet<&'a str> {
        let all = overrides.iter().chain([&self]).flat_map(|meters| &meters.0.rules);
        all.map(String::as_str).chain([""]).collect()
    }
}

impl Meters {
    #[cold]
    fn counter(&self, rule: usize, verdict: Verdict, source: Source) -> Counter {
        let rule = self.rules.get(rule).map_or("", String::as_str);
        self.decisions.get_or_create(&self.labels(rule, verdict.name(), source.name())).clone()
    }

    #[cold]
    fn shadow_counter(&self, rule: usize) -> Counter {
        let rule = self.rules.get(rule).map_or("", String::as_str);
        self.shadow_denials.get_or_create(&self.rule_labels(rule)).clone()
    }

    fn labels(&self, rule: &str, verdict: &'static str, source: &'static str) -> DecisionLabels {
        let RuleLabels { domain, policy, rule } = self.rule_labels(rule);
        DecisionLabels { domain, policy, rule, verdict, source }
    }

    fn rule_labels(&self, rule: &str) -> RuleLabels {
        RuleLabels { domain: self.domain.clone(), policy: self.policy.clone(), rule: rule.to_owned() }
    }
}

impl fmt::Debug for PolicyMeters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyMeters").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}

/// Index of the enforced rule that determines the verdict: the least `remaining` for allow, the longest `retry_after`
/// for deny, the first that returns never for never.
#[inline]
pub(super) fn deciding_rule(rules: &[RuleDecision], verdict: Verdict) -> Option<usize> {
    let enforcing = || rules.iter().enumerate().filter(|(_, rule)| !rule.shadow);
    let index = |(index, _): (usize, &RuleDecision)| index;
    match verdict {
        Verdict::Allow { .. } => enforcing().min_by_key(|(_, rule)| rule.remaining).map(index),
        Verdict::Deny { .. } => enforcing().max_by_key(|(_, rule)| rule.verdict.retry_after_span()).map(index),
        Verdict::Never => enforcing().find(|(_, rule)| rule.verdict == Verdict::Never).map(index),
    }
}

fn verdict_index(verdict: Verdict) -> usize {
    match verdict {
        Verdict::Allow { .. } => 0,
        Verdict::Deny { .. } => 1,
        Verdict::Never => 2,
    }
}

fn source_index(source: Source) -> usize {
    match source {
        Source::Store => 0,
        Source::InTurn => 1,
        Source::Overflow => 2,
        Source::Allotment => 3,
        Source::CachedDenial => 4,
        Source::Local => 5,
        Source::Open => 6,
        Source::Closed => 7,
        Source::Repeated => 8,
        _ => 9,
    }
}

/// Verdicts that are counted separately.
const VERDICTS: usize = 3;
/// In the order of [`verdict_index`].
const VERDICT_NAMES: [&str; VERDICTS] = ["allow", "deny", "never"];
/// The sources that have a label.
const ALL_SOURCES: [Source; 9] = [
    Source::Store,
    Source::InTurn,
    Source::Overflow,
    Source::Allotment,
    Source::CachedDenial,
    Source::Local,
    Source::Open,
    Source::Closed,
    Source::Repeated,
];
/// Those of [`ALL_SOURCES`], and one counter for sources that are not listed.
const SOURCES: usize = 10;
