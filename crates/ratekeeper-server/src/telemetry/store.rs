//! Store metrics: a Prometheus collector that reads the store's health and counters at each scrape.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use crate::wiring::{AnyStore, Counts, HealthStatus, StoreHealth};

/// The collector of one store.
#[derive(Debug)]
pub(super) struct StoreCollector(pub(super) AnyStore);

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let health = StoreHealth::of(&self.0);
        let mut gauge = |name: &str, help: &str, value: u64| -> fmt::Result {
            let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        gauge("keys", "Keys stored in this process", health.keys)?;
        gauge("key_bytes", "Bytes used by keys and their states in this process", health.bytes)?;
        if health.kind == "memory" {
            gauge("policy_versions", "Policies and their superseded versions in this process", health.policy_versions)?;
        }
        gauge("store_up", "1 while the store answers", u64::from(health.answers()))?;
        let degraded = matches!(health.health, HealthStatus::Degraded(_));
        gauge("store_degraded", "1 while a part of the store does not answer", u64::from(degraded))?;
        if health.kind == "redis" {
            let (keys, grants) = health.owing;
            gauge("local_keys_owing", "Keys with local grants that the store has not been charged for yet", keys)?;
            gauge("local_grants_owing", "Local grants that the store has not been charged for yet", grants)?;
        }
        if let Some(counts) = &health.shared {
            gauge("allotment_held", "Permits that this process holds in allotments", counts.allotment_held)?;
            gauge("allotment_holders", "Keys of which this process holds an allotment", counts.allotment_holders)?;
        }
        let mut counter = |name: &str, help: &str, value: u64| -> fmt::Result {
            let metric = ConstCounter::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
        };
        counter("expired_keys", "Keys removed because they were back in their initial state", health.expired)?;
        counter("evicted_keys", "Keys evicted to free memory", health.evicted)?;
        counter("overflowed_decisions", "Decisions on keys that had no room in memory", health.overflowed)?;
        counter(
            "unenforced_decisions",
            "Overflowed decisions that were allowed without being counted",
            health.unenforced,
        )?;
        if let Some(counts) = &health.shared {
            encode_calls(counts, &mut encoder)?;
        }
        if !health.counts.is_empty() {
            let help = "Events of the store's client, by event";
            encode_family("store_events", help, "event", &health.counts, &mut encoder)?;
        }
        Ok(())
    }
}

/// Calls to a store on a server, and decisions without a call: merged calls, cached denials, allotments.
fn encode_calls(counts: &Counts, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut counter = |name: &str, help: &str, value: u64| -> fmt::Result {
        let metric = ConstCounter::new(value);
        metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
    };
    counter(
        "merged_checks",
        "Requests decided by a call together with others of the same key",
        counts.merged_requests,
    )?;
    counter("cached_denials", "Requests denied by a cached denial, without a call", counts.cached_denials)?;
    counter("allotment_granted", "Permits granted to this process in advance", counts.allotment_granted)?;
    let calls =
        [("single", counts.single_calls), ("merged", counts.merged_calls), ("allotment", counts.allotment_calls)];
    encode_family("store_calls", "Calls to the store, by kind", "kind", &calls, encoder)?;
    let permits = [
        ("used", counts.allotment_used),
        ("returned", counts.allotment_returned),
        ("expired", counts.allotment_expired),
        ("lost", counts.allotment_lost),
    ];
    let help = "Permits of allotments that are no longer held, by outcome";
    encode_family("allotment_permits", help, "outcome", &permits, encoder)?;
    let events = [
        ("short", counts.allotment_short),
        ("overtaken", counts.allotment_overtaken),
        ("unknown", counts.allotment_unknown),
    ];
    encode_family("allotments", "Allotment calls with an unusual result, by event", "event", &events, encoder)
}

/// One counter for each value of a label.
fn encode_family(
    name: &str,
    help: &str,
    label: &'static str,
    values: &[(&'static str, u64)],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (value, count) in values {
        let labels = [(label, *value)];
        let one: MetricEncoder<'_> = family.encode_family(&labels)?;
        ConstCounter::new(*count).encode(one)?;
    }
    Ok(())
}
