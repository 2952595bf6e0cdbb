//! Limits as metrics: the limit and the period of every rule in force, so that a panel can show usage next to them and
//! an alert can compare the servers of a fleet.
//!
//! Bound: with more than [`MAX_LISTED`] policies, only their number is exported.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use ratekeeper_core::{Period, Policy, Rule};

/// The policies in force. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    policies: AtomicUsize,
    /// Empty if there are more than [`MAX_LISTED`].
    listed: Mutex<Vec<Arc<Policy>>>,
}

impl Limits {
    /// Replaces the policies by these, of which there are `count`.
    pub(super) fn publish(&self, count: usize, policies: Vec<Arc<Policy>>) {
        self.0.policies.store(count, Ordering::Relaxed);
        *self.0.listed.lock() = policies;
    }
}

impl Collector for Limits {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let count = i64::try_from(self.0.policies.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        let help = "Policies in force";
        ConstGauge::new(count).encode(encoder.encode_descriptor("policies", help, None, MetricType::Gauge)?)?;
        let listed = self.0.listed.lock().clone();
        let mut family = |name: &str, help: &str, value: fn(&Rule) -> f64| -> fmt::Result {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for policy in &listed {
                for rule in policy.rules() {
                    let labels = [
                        ("domain", policy.domain()),
                        ("policy", policy.name()),
                        ("rule", rule.name()),
                        ("algorithm", rule.rule().algorithm().name()),
                    ];
                    ConstGauge::new(value(rule.rule())).encode(family.encode_family(&labels)?)?;
                }
            }
            Ok(())
        };
        family("rule_limit", "Permits per period of a rule", |rule| rule.quota().limit() as f64)?;
        family("rule_period_seconds", "Period of a rule, or the length of its leases", period_seconds)?;
        family("rule_shadow", "1 if a rule is in shadow mode", |rule| f64::from(u8::from(rule.is_shadow())))
    }
}

fn period_seconds(rule: &Rule) -> f64 {
    match rule.quota().period() {
        Period::Span(span) => span.as_micros() as f64 / 1e6,
        Period::Month => MEAN_MONTH_SECONDS,
        Period::Year => 12.0 * MEAN_MONTH_SECONDS,
    }
}

/// The most policies whose rules are exported: three series for each rule.
pub(crate) const MAX_LISTED: usize = 1_000;
/// A twelfth of the Gregorian calendar's mean year.
const MEAN_MONTH_SECONDS: f64 = 2_629_746.0;
