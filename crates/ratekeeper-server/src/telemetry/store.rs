//! Store metrics: a Prometheus collector that reads the store's health and counters at each scrape.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use crate::wiring::{AnyStore, StoreHealth};

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
        if health.kind == "redis" {
            let (keys, grants) = health.owing;
            gauge("local_keys_owing", "Keys with local grants that the store has not been charged for yet", keys)?;
            gauge("local_grants_owing", "Local grants that the store has not been charged for yet", grants)?;
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
        if !health.counts.is_empty() {
            let help = "Events of the store's client, by event";
            let mut family = encoder.encode_descriptor("store_events", help, None, MetricType::Counter)?;
            for (event, count) in &health.counts {
                let labels = [("event", *event)];
                let one: MetricEncoder<'_> = family.encode_family(&labels)?;
                ConstCounter::new(*count).encode(one)?;
            }
        }
        Ok(())
    }
}
