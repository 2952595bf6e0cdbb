//! Prometheus metrics of the server: registration, and the counters that are not per policy.

use std::{
    collections::{BTreeMap, HashSet},
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry},
};
use ratekeeper_core::{Policy, Verdict};

use super::{
    AdminMetrics, TopDenied, TraceConfig, TraceError, Traces,
    decision_log::{DecisionLog, DecisionLogConfig},
    labels::{BuildLabels, ClosureLabels, DecisionLabels, OutcomeLabels, ReasonLabels, RuleLabels, Wire, WireLabels},
    limits::Limits,
    policy_meters::{PolicyMeters, Totals},
    process::ProcessCollector,
    recent::{LISTS, RecentRefusals},
    store::StoreCollector,
};
use crate::{build_info, wiring::AnyStore};

/// The metrics, the denied keys and the traces of a server.
pub struct Telemetry {
    /// Metrics whose names begin with `ratekeeper_`.
    registry: Registry,
    /// Metrics of the process, whose names are those of Prometheus' client libraries.
    process: Registry,
    limits: Limits,
    decisions: Family<DecisionLabels, Counter>,
    shadow_denials: Family<RuleLabels, Counter>,
    latency: Family<WireLabels, Histogram, fn() -> Histogram>,
    unmatched: Family<ReasonLabels, Counter>,
    /// Connections open now, by wire.
    pub connections: Family<WireLabels, Gauge>,
    /// Requests rejected as malformed or for another client error, by wire.
    pub bad_requests: Family<WireLabels, Counter>,
    /// Refused tokens and secrets, by wire. A missing one counts too, except on the RESP port.
    pub refused_tokens: Family<WireLabels, Counter>,
    /// Connections refused because too many were open, by wire.
    pub refused_connections: Family<WireLabels, Counter>,
    /// Connections closed for abuse, by wire and reason.
    pub closed_connections: Family<ClosureLabels, Counter>,
    /// Bytes charged for in-flight requests and unsent responses, by wire. Updated at each tick of the stall detector.
    pub pending_bytes: Family<WireLabels, Gauge>,
    connection_limit: Family<WireLabels, Gauge>,
    pending_bytes_limit: Family<WireLabels, Gauge>,
    key_bytes_limit: Gauge,
    /// Requests refused because their connection's account had no room, by wire.
    pub refused_requests: Family<WireLabels, Counter>,
    /// Reloads by outcome.
    pub reloads: Family<OutcomeLabels, Counter>,
    /// 1 while the rules in force are not those in the files.
    pub stale_rules: Gauge,
    /// Requests that the store could not decide.
    pub undecided: Counter,
    /// Inline limits that made room for others; they are installed again when they are used again.
    pub evicted_inline_limits: Counter,
    /// Metrics of switches and secret files.
    pub(crate) admin_metrics: AdminMetrics,
    /// The keys that are denied most.
    pub top_denied: TopDenied,
    /// The latest refusals.
    pub recent_refusals: RecentRefusals,
    /// Lists of recent callers that may still be created.
    caller_lists: Arc<AtomicUsize>,
    pub(super) decision_log: Option<DecisionLog>,
    traces: Traces,
    reported_domains: Mutex<HashSet<Box<str>>>,
    /// Meters of inline limits, by domain. The engine bounds their number.
    inline: Mutex<BTreeMap<Box<str>, PolicyMeters>>,
    /// Rules whose counters were created at zero.
    rules_at_zero: AtomicUsize,
}

impl Default for Telemetry {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("ratekeeper");
        let all = &mut registry;
        let latency = Family::new_with_constructor(latency_buckets as fn() -> Histogram);
        all.register("request_duration_seconds", "Time from request to response, by wire", latency.clone());
        let mut telemetry = Self {
            decisions: registered(all, "decisions", "Decisions, by the rule that determined them"),
            shadow_denials: registered(all, "shadow_denials", "Requests that a rule in shadow mode would have denied"),
            latency,
            unmatched: registered(all, "unlimited_requests", "Requests allowed because no rule limits them, by reason"),
            connections: registered(all, "connections", "Open connections, by wire"),
            bad_requests: registered(all, "bad_requests", "Requests rejected for a client error, by wire"),
            refused_tokens: registered(all, "refused_tokens", "Refused tokens and secrets, by wire"),
            refused_connections: registered(
                all,
                "refused_connections",
                "Connections refused because too many were open, by wire",
            ),
            closed_connections: registered(all, "closed_connections", "Connections closed for abuse, by reason"),
            pending_bytes: registered(
                all,
                "pending_bytes",
                "Bytes charged for in-flight requests and unsent responses, by wire",
            ),
            connection_limit: registered(all, "connection_limit", "Most open connections, by wire"),
            pending_bytes_limit: registered(all, "pending_bytes_limit", "Most pending bytes, by wire"),
            key_bytes_limit: registered(all, "key_bytes_limit", "Most bytes used by keys and their states"),
            refused_requests: registered(
                all,
                "refused_requests",
                "Requests refused because their connection's account had no room, by wire",
            ),
            reloads: registered(all, "reloads", "Reloads of the rule files, by outcome"),
            stale_rules: registered(all, "rules_stale", "1 while the rules in force are not those in the files"),
            undecided: registered(all, "undecided_requests", "Requests that the store could not decide"),
            evicted_inline_limits: registered(all, "evicted_inline_limits", "Inline limits that made room for others"),
            admin_metrics: AdminMetrics::new(all),
            top_denied: TopDenied::new(TOP_DENIED_ENTRIES),
            recent_refusals: RecentRefusals::default(),
            caller_lists: Arc::new(AtomicUsize::new(LISTS)),
            decision_log: None,
            traces: Traces::default(),
            reported_domains: Mutex::default(),
            inline: Mutex::default(),
            rules_at_zero: AtomicUsize::new(0),
            limits: Limits::default(),
            registry: Registry::default(),
            process: Registry::default(),
        };
        // Created at zero, so that an alert on the first failure has a value to compare with.
        for outcome in [OutcomeLabels::OK, OutcomeLabels::FAILED] {
            let _ = telemetry.reloads.get_or_create_owned(&outcome);
        }
        let build = Family::<BuildLabels, Gauge>::default();
        build
            .get_or_create(&BuildLabels {
                version: build_info::VERSION,
                commit: build_info::COMMIT.unwrap_or("unknown"),
            })
            .set(1);
        registry.register("build_info", "1, with the version and the commit of the program as labels", build);
        registry.register_collector(Box::new(telemetry.limits.clone()));
        telemetry.process.register_collector(Box::new(ProcessCollector::default()));
        telemetry.registry = registry;
        telemetry
    }
}

impl Telemetry {
    /// The counter handles of a policy, created once per rulebook. The counters of the first [`RULES_AT_ZERO`] rules
    /// exist from now on; those of others from their first decision on.
    pub(crate) fn policy_meters(&self, policy: &Policy) -> PolicyMeters {
        let meters = self.meters(policy);
        if self.rules_at_zero.fetch_add(policy.rules().len(), Ordering::Relaxed) < RULES_AT_ZERO {
            meters.create(policy);
        }
        meters
    }

    fn meters(&self, policy: &Policy) -> PolicyMeters {
        PolicyMeters::new(policy, self.decisions.clone(), self.shadow_denials.clone(), Arc::clone(&self.caller_lists))
    }

    /// The counter handles of an inline limit. All inline limits of a domain share one set under [`INLINE_POLICY`], so
    /// that the number of labels does not grow with the limits that clients send.
    pub(crate) fn inline_meters(&self, policy: &Policy) -> PolicyMeters {
        let mut inline = self.inline.lock();
        if let Some(meters) = inline.get(policy.domain()) {
            return meters.clone();
        }
        let named = Policy::new(INLINE_POLICY, policy.rules().iter().map(|rule| rule.rule().clone()));
        let named = named.and_then(|named| named.in_domain(policy.domain()));
        let meters = self.meters(named.as_ref().unwrap_or(policy));
        inline.insert(policy.domain().into(), meters.clone());
        meters
    }

    /// Decisions of inline limits, by domain.
    pub(crate) fn inline_totals(&self) -> Vec<(String, Totals)> {
        let inline = self.inline.lock();
        inline.iter().map(|(domain, meters)| (domain.to_string(), meters.totals(&[]))).collect()
    }

    /// Requests that were [allowed without a limit](Self::let_through) for one of these reasons.
    pub(crate) fn let_through_total(&self, reasons: impl IntoIterator<Item = &'static str>) -> u64 {
        let count = |reason| self.unmatched.get(&ReasonLabels { reason }).map(|counter| counter.get());
        reasons.into_iter().filter_map(count).sum()
    }

    /// Records the latency of a request.
    pub fn observe(&self, wire: Wire, took: Duration) {
        self.latency.get_or_create(&wire.label()).observe(took.as_secs_f64());
    }

    /// The latency histogram of a wire, for callers that keep the handle.
    pub fn latency(&self, wire: Wire) -> Histogram {
        self.latency.get_or_create(&wire.label()).clone()
    }

    /// Counts a request that a ban refused without a store call, or would have refused outside shadow mode. `source` is
    /// the label of such decisions.
    pub(crate) fn refused_always(&self, names: [&str; 3], source: &'static str, shadow: bool) {
        let [domain, policy, rule] = names.map(str::to_owned);
        if shadow {
            self.shadow_denials.get_or_create(&RuleLabels { domain, policy, rule }).inc();
            return;
        }
        let labels = DecisionLabels { domain, policy, rule, verdict: Verdict::Never.name(), source };
        self.decisions.get_or_create(&labels).inc();
    }

    /// Counts a request that is allowed because no rule limits it.
    pub(crate) fn let_through(&self, reason: &'static str) {
        self.unmatched.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Creates the counters of requests that no rule limits, for these reasons.
    pub(crate) fn expect_unlimited(&self, reasons: impl IntoIterator<Item = &'static str>) {
        for reason in reasons {
            let _ = self.unmatched.get_or_create_owned(&ReasonLabels { reason });
        }
    }

    /// Creates the metrics of a port that is listened on, with its limits of connections and of pending bytes.
    pub(crate) fn watch_port(&self, wire: Wire, connections: usize, pending_bytes: usize) {
        let label = wire.label();
        let set = |gauges: &Family<WireLabels, Gauge>, bound: usize| {
            gauges.get_or_create(&label).set(i64::try_from(bound).unwrap_or(i64::MAX));
        };
        set(&self.connection_limit, connections);
        // Pipelines of the RESP port are bounded by connection.
        if wire != Wire::Resp {
            set(&self.pending_bytes_limit, pending_bytes);
        }
        let _ = self.connections.get_or_create_owned(&label);
        for counters in [&self.bad_requests, &self.refused_tokens, &self.refused_connections] {
            let _ = counters.get_or_create_owned(&label);
        }
    }

    /// Publishes the policies in force, of which there are `count`. `policies` is empty if there are more than
    /// [`MAX_LISTED`](super::MAX_LISTED).
    pub(crate) fn publish_limits(&self, count: usize, policies: Vec<Arc<Policy>>) {
        self.limits.publish(count, policies);
    }

    /// Whether an unknown domain is to be logged: true once per domain, for the first [`REPORTED_DOMAINS`] domains.
    pub(crate) fn is_first_report(&self, domain: &str) -> bool {
        let mut reported = self.reported_domains.lock();
        reported.len() < REPORTED_DOMAINS && !reported.contains(domain) && reported.insert(domain.into())
    }

    /// All metrics as OpenMetrics text.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &self.process)?;
        encode_eof(&mut text)?;
        Ok(text)
    }

    /// The traces; inactive unless configured.
    #[inline]
    pub(crate) fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Starts the export of spans to this endpoint.
    pub(crate) fn trace_to(&mut self, config: &TraceConfig) -> Result<(), TraceError> {
        self.traces = Traces::start(config, &mut self.registry)?;
        Ok(())
    }

    /// Starts the decision log.
    pub(crate) fn log_decisions(&mut self, config: &DecisionLogConfig) -> io::Result<()> {
        let lines = registered(&mut self.registry, "decision_log_lines", "Lines of the decision log");
        let help = "Lines that the decision log has dropped, by reason";
        let dropped = registered(&mut self.registry, "decision_log_dropped", help);
        self.decision_log = Some(DecisionLog::start(config, lines, dropped)?);
        Ok(())
    }

    /// Writes what the decision log has queued, and ends it.
    pub(crate) fn finish_decision_log(&self) {
        if let Some(log) = &self.decision_log {
            log.finish();
        }
    }

    /// Adds the metrics of this store, which may use so many bytes for keys.
    pub fn watch_store(&mut self, store: AnyStore, key_bytes: usize) {
        self.key_bytes_limit.set(i64::try_from(key_bytes).unwrap_or(i64::MAX));
        self.registry.register_collector(Box::new(StoreCollector(store)));
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}

/// A metric at zero, registered under this name.
fn registered<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn latency_buckets() -> Histogram {
    Histogram::new(LATENCY_BUCKETS)
}

/// Upper bounds in seconds: 1, 2.5 and 5 of each power of ten, from 10 µs, which exceeds a decision in memory, to the
/// longest waits.
const LATENCY_BUCKETS: [f64; 20] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
    0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// The policy name that inline limits are counted under.
pub const INLINE_POLICY: &str = "inline";
/// Rules whose counters exist from the start: three series for each at most.
const RULES_AT_ZERO: usize = 3_000;
/// Entries per shard of the list of denied keys.
const TOP_DENIED_ENTRIES: usize = 1_000;
/// Unknown domains that are logged by name.
const REPORTED_DOMAINS: usize = 1_000;
