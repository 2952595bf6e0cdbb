//! The store's own numbers, asked for when somebody looks.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use crate::wiring::Storage;

/// Tells of a store.
#[derive(Debug)]
pub(super) struct StoreCollector(pub(super) Storage);

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let health = self.0.health();
        let mut gauge = |name: &str, help: &str, value: u64| -> fmt::Result {
            let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            metric.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        gauge("keys", "Keys remembered in this process", health.keys)?;
        gauge("key_bytes", "Bytes that keys and their states take in this process", health.bytes)?;
        if health.kind == "memory" {
            gauge(
                "policy_versions",
                "Policies and superseded versions of them in this process",
                health.policy_versions,
            )?;
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
        counter("expired_keys", "Keys let go because they were as good as new", health.expired)?;
        counter("evicted_keys", "Keys let go before that, for want of room", health.evicted)?;
        counter("overflowed_decisions", "Decisions for keys that found no room", health.overflowed)?;
        counter("unenforced_decisions", "Those of them that were admitted without being counted", health.unenforced)?;
        if !health.counts.is_empty() {
            let help = "What happened on the way to the store, by event";
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
