//! Numbers for Prometheus, and the handles that the hot path bumps without looking anything up.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use tollgate_core::{Decision, Policy, RuleDecision, Source, Verdict};

use super::{TopDenied, TraceConfig, TraceError, Traces, Upkeep, store::StoreCollector};
use crate::{
    engine::{Ban, Fate},
    wiring::Storage,
};

/// Everything the server counts.
pub struct Telemetry {
    registry: Registry,
    decisions: Family<DecisionLabels, Counter>,
    shadow_denials: Family<RuleLabels, Counter>,
    latency: Family<WireLabels, Histogram, fn() -> Histogram>,
    unmatched: Family<FateLabels, Counter>,
    /// Connections open now, by wire.
    pub connections: Family<WireLabels, Gauge>,
    /// Requests that could not be understood, by wire.
    pub bad_requests: Family<WireLabels, Counter>,
    /// Tokens shown that nobody knows.
    pub refused_tokens: Family<WireLabels, Counter>,
    /// Connections turned away because there were too many, by wire.
    pub refused_connections: Family<WireLabels, Counter>,
    /// Connections closed for abuse, by wire and reason.
    pub closed_connections: Family<ClosureLabels, Counter>,
    /// Bytes that requests under way and answers not yet sent hold, by wire; as of the last second.
    pub pending_bytes: Family<WireLabels, Gauge>,
    /// Requests refused because their connection held too much, by wire.
    pub refused_requests: Family<WireLabels, Counter>,
    /// Reloads by outcome.
    pub reloads: Family<OutcomeLabels, Counter>,
    /// 1 while the rules in force are not those in the files.
    pub stale_rules: Gauge,
    /// Questions the store could not answer.
    pub undecided: Counter,
    /// Requests with numbers of their own that there was no room for.
    pub refused_numbers: Counter,
    /// Switches and secrets.
    pub(crate) upkeep: Upkeep,
    /// Who is denied most.
    pub top_denied: TopDenied,
    traces: Traces,
    reported_domains: Mutex<HashSet<Box<str>>>,
    /// Meters of limits that come with calls, by domain; the engine bounds how many there are.
    adhoc: Mutex<BTreeMap<Box<str>, PolicyMeters>>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct DecisionLabels {
    domain: String,
    policy: String,
    rule: String,
    verdict: &'static str,
    source: &'static str,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct RuleLabels {
    domain: String,
    policy: String,
    rule: String,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
struct FateLabels {
    reason: &'static str,
}

/// Which wire.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
pub struct WireLabels {
    wire: &'static str,
}

/// Which connections were closed for abuse.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
pub struct ClosureLabels {
    /// On which wire.
    pub wire: &'static str,
    /// For what.
    pub reason: &'static str,
}

/// How something ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, EncodeLabelSet)]
pub struct OutcomeLabels {
    outcome: &'static str,
}

/// A listener, for labels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wire {
    /// The HTTP data port.
    Http,
    /// Envoy's protocol.
    Grpc,
    /// Redis' protocol.
    Resp,
    /// The admin port.
    Admin,
}

impl Wire {
    /// Its name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
            Self::Admin => "admin",
        }
    }

    /// Its label.
    pub const fn label(self) -> WireLabels {
        WireLabels { wire: self.name() }
    }
}

impl OutcomeLabels {
    /// It worked.
    pub const OK: Self = Self { outcome: "ok" };
    /// It did not; the old rules stay.
    pub const FAILED: Self = Self { outcome: "failed" };
}

impl Default for Telemetry {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("tollgate");
        let decisions = Family::default();
        let shadow_denials = Family::default();
        let latency = Family::new_with_constructor(latency_buckets as fn() -> Histogram);
        let unmatched = Family::default();
        let (connections, bad_requests, refused_connections) =
            (Family::default(), Family::default(), Family::default());
        let (stale_rules, undecided) = (Gauge::default(), Counter::default());
        let reloads: Family<OutcomeLabels, Counter> = Family::default();
        // An alert on failures needs something to compare the first one with.
        let _ = reloads.get_or_create_owned(&OutcomeLabels::FAILED);
        let refused_numbers = Counter::default();
        registry.register("decisions", "Decisions by the rule that made them", decisions.clone());
        registry.register(
            "shadow_denials",
            "Requests that a rule which only watches would have refused",
            shadow_denials.clone(),
        );
        registry.register("request_duration_seconds", "Time from request to answer, by wire", latency.clone());
        registry.register(
            "unlimited_requests",
            "Requests let through because no rule is about them",
            unmatched.clone(),
        );
        registry.register("connections", "Connections open now", connections.clone());
        registry.register("bad_requests", "Requests that could not be understood", bad_requests.clone());
        let refused_tokens: Family<WireLabels, Counter> = Family::default();
        registry.register("refused_tokens", "Tokens that were shown and are not known", refused_tokens.clone());
        registry.register("refused_connections", "Connections turned away: too many", refused_connections.clone());
        let closed_connections: Family<ClosureLabels, Counter> = Family::default();
        registry.register("closed_connections", "Connections closed for abuse, by reason", closed_connections.clone());
        let pending_bytes: Family<WireLabels, Gauge> = Family::default();
        registry.register(
            "pending_bytes",
            "Bytes charged for requests under way and answers not yet sent",
            pending_bytes.clone(),
        );
        let refused_requests: Family<WireLabels, Counter> = Family::default();
        registry.register(
            "refused_requests",
            "Requests refused because their connection had too many under way or unread",
            refused_requests.clone(),
        );
        registry.register("reloads", "Times the rule files were read, by outcome", reloads.clone());
        registry.register(
            "rules_stale",
            "1 while the files hold mistakes and older rules stay in force",
            stale_rules.clone(),
        );
        registry.register("undecided_requests", "Questions the store could not answer", undecided.clone());
        registry.register(
            "refused_numbers",
            "Requests refused because they brought yet another set of numbers of their own",
            refused_numbers.clone(),
        );
        let upkeep = Upkeep::new(&mut registry);
        Self {
            registry,
            upkeep,
            decisions,
            shadow_denials,
            latency,
            unmatched,
            connections,
            bad_requests,
            refused_tokens,
            refused_connections,
            closed_connections,
            pending_bytes,
            refused_requests,
            reloads,
            stale_rules,
            undecided,
            refused_numbers,
            top_denied: TopDenied::new(TOP_PLACES),
            traces: Traces::default(),
            reported_domains: Mutex::default(),
            adhoc: Mutex::default(),
        }
    }
}

impl Telemetry {
    /// The handles of a policy, made once per rulebook.
    pub(crate) fn policy_meters(&self, policy: &Policy) -> PolicyMeters {
        let rules: Vec<String> = policy.rules().iter().map(|rule| rule.name().to_owned()).collect();
        let cells = (0..(rules.len() + 1) * VERDICTS * SOURCES).map(|_| OnceLock::new()).collect();
        let shadows = rules.iter().map(|_| OnceLock::new()).collect();
        PolicyMeters(Arc::new(Meters {
            domain: policy.domain().to_owned(),
            policy: policy.name().to_owned(),
            rules,
            decisions: self.decisions.clone(),
            shadow_denials: self.shadow_denials.clone(),
            cells,
            shadows,
        }))
    }

    /// The handles of a policy that came with a call: however many numbers callers think of, the labels stay few, and one
    /// set of handles is enough for a domain.
    pub(crate) fn adhoc_meters(&self, policy: &Policy) -> PolicyMeters {
        let mut adhoc = self.adhoc.lock();
        if let Some(meters) = adhoc.get(policy.domain()) {
            return meters.clone();
        }
        let named = Policy::new(ADHOC, policy.rules().iter().map(|rule| rule.rule().clone()));
        let named = named.and_then(|named| named.in_domain(policy.domain()));
        let meters = self.policy_meters(named.as_ref().unwrap_or(policy));
        adhoc.insert(policy.domain().into(), meters.clone());
        meters
    }

    /// Decisions by limits that came with calls, by domain: allowed, denied, never.
    pub(crate) fn adhoc_totals(&self) -> Vec<(String, [u64; VERDICTS])> {
        let adhoc = self.adhoc.lock();
        adhoc.iter().map(|(domain, meters)| (domain.to_string(), meters.totals(&[]))).collect()
    }

    /// Requests let through because no rule is about them, whatever the reason.
    pub(crate) fn unlimited(&self) -> u64 {
        let reasons = [Fate::Unlimited, Fate::Replaced, Fate::Unmatched, Fate::UnknownDomain, Fate::SwitchedOff];
        let count = |fate: Fate| self.unmatched.get(&FateLabels { reason: fate.name() }).map(|counter| counter.get());
        reasons.into_iter().filter_map(count).sum()
    }

    /// How long a request took, on its wire.
    pub fn observe(&self, wire: Wire, took: Duration) {
        self.latency.get_or_create(&wire.label()).observe(took.as_secs_f64());
    }

    /// The histogram of a wire, for those who keep it at hand.
    pub fn latency(&self, wire: Wire) -> Histogram {
        self.latency.get_or_create(&wire.label()).clone()
    }

    /// A request that a rule file refuses whatever comes, or that came with a limit of nothing: no store decides that. One
    /// that only watches would have refused it.
    pub(crate) fn refused_always(&self, domain: &str, ban: Option<&Ban>, watches: bool) {
        let (policy, rule) = ban.map(|ban| (ban.policy.clone(), ban.rule.clone())).unwrap_or_default();
        let domain = domain.to_owned();
        if watches {
            self.shadow_denials.get_or_create(&RuleLabels { domain, policy, rule }).inc();
            return;
        }
        let labels =
            DecisionLabels { domain, policy, rule, verdict: Verdict::Never.name(), source: Fate::RefusedAlways.name() };
        self.decisions.get_or_create(&labels).inc();
    }

    /// A request that no rule is about.
    pub(crate) fn let_through(&self, reason: &'static str) {
        self.unmatched.get_or_create(&FateLabels { reason }).inc();
    }

    /// True the first time a domain is named. After a thousand of them nobody reads on.
    pub(crate) fn is_news(&self, domain: &str) -> bool {
        let mut reported = self.reported_domains.lock();
        reported.len() < REPORTED_DOMAINS && !reported.contains(domain) && reported.insert(domain.into())
    }

    /// All of it as text. An error is the writer's.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Spans, where they are asked for.
    #[inline]
    pub(crate) fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Sends spans there from now on.
    pub(crate) fn trace_to(&mut self, config: &TraceConfig) -> Result<(), TraceError> {
        self.traces = Traces::start(config, &mut self.registry)?;
        Ok(())
    }

    /// Tells of this store, too, from now on.
    pub fn watch_store(&mut self, store: Storage) {
        self.registry.register_collector(Box::new(StoreCollector(store)));
    }
}

/// The counters of one policy. Clones share them.
#[derive(Clone)]
pub struct PolicyMeters(Arc<Meters>);

struct Meters {
    domain: String,
    policy: String,
    rules: Vec<String>,
    decisions: Family<DecisionLabels, Counter>,
    shadow_denials: Family<RuleLabels, Counter>,
    /// By rule (the last for none of them), verdict and source; made when first needed, so that only what happens shows.
    cells: Box<[OnceLock<Counter>]>,
    shadows: Box<[OnceLock<Counter>]>,
}

impl PolicyMeters {
    /// Counts what a policy's own rules said.
    #[inline]
    pub(crate) fn count(&self, rules: &[RuleDecision], decision: &Decision, verdict: Verdict) {
        let meters = &*self.0;
        let rule = speaker(rules, verdict).unwrap_or(meters.rules.len()).min(meters.rules.len());
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
}

impl PolicyMeters {
    /// Decisions so far, those by the rules of these overrides included: allowed, denied, never.
    pub(crate) fn totals(&self, overrides: &[&Self]) -> [u64; VERDICTS] {
        let mut totals = [0; VERDICTS];
        for rule in self.rules_with(overrides) {
            for (index, total) in totals.iter_mut().enumerate() {
                let told = |source: &Source| {
                    let labels = self.0.labels(rule, VERDICT_NAMES[index], source.name());
                    self.0.decisions.get(&labels).map_or(0, |counter| counter.get())
                };
                *total += ALL_SOURCES.iter().map(told).sum::<u64>();
            }
        }
        totals
    }

    /// Requests that rules which only watch would have refused.
    pub(crate) fn shadow_denials(&self, overrides: &[&Self]) -> u64 {
        let told = |rule: &str| self.0.shadow_denials.get(&self.0.rule_labels(rule)).map_or(0, |counter| counter.get());
        self.rules_with(overrides).into_iter().map(told).sum()
    }

    /// Every name that decisions are counted under; the empty one is for those that no rule made.
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

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}

/// The rule that speaks for these: of refusing ones the one that takes longest, else the one with the least remaining.
#[inline]
fn speaker(rules: &[RuleDecision], verdict: Verdict) -> Option<usize> {
    let enforcing = || rules.iter().enumerate().filter(|(_, rule)| !rule.shadow);
    let index = |(index, _): (usize, &RuleDecision)| index;
    match verdict {
        Verdict::Allow { .. } => enforcing().min_by_key(|(_, rule)| rule.remaining).map(index),
        Verdict::Deny { .. } => enforcing().max_by_key(|(_, rule)| rule.verdict.retry_after()).map(index),
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
        Source::Lease => 3,
        Source::Local => 4,
        Source::Open => 5,
        Source::Closed => 6,
        _ => 7,
    }
}

/// From 10 µs to 20 s: a decision in memory takes less than the first, and nobody waits for longer than the last.
fn latency_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_01, 2.5, 17))
}

/// The policy that limits which come with calls are counted under.
pub const ADHOC: &str = "ad hoc";
const VERDICTS: usize = 3;
/// In the order of their cells.
const VERDICT_NAMES: [&str; VERDICTS] = ["allow", "deny", "never"];
const ALL_SOURCES: [Source; 7] =
    [Source::Store, Source::InTurn, Source::Overflow, Source::Lease, Source::Local, Source::Open, Source::Closed];
const SOURCES: usize = 8;
/// Keys whose denials are counted one by one.
const TOP_PLACES: usize = 1_000;
/// Unknown domains that are reported by name.
const REPORTED_DOMAINS: usize = 1_000;
