//! Metrics without a metrics crate: an observer that counts decisions by policy and verdict.
//!
//! Replace the atomics by handles of the crate you use. Labels are the policy, the verdict and the source; a key is too
//! many values for a label.
//!
//! `cargo run -p ratekeeper --example metrics`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use ratekeeper::{Limiter, LimiterEvent, Observer, Quota, Rule, Source, Verb, Verdict};

#[derive(Default)]
struct Metrics {
    allowed: AtomicU64,
    denied: AtomicU64,
    fallback: AtomicU64,
    failed: AtomicU64,
}

/// A local type, because the counters are shared with the page that shows them.
struct MetricsObserver(Arc<Metrics>);

impl Observer for MetricsObserver {
    fn observe(&self, event: &LimiterEvent<'_>) {
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        match event {
            LimiterEvent::Decided { verb: Verb::Take(_), decision, .. } => {
                match decision.verdict {
                    Verdict::Allow { .. } => count(&self.0.allowed),
                    Verdict::Deny { .. } | Verdict::Never => count(&self.0.denied),
                };
                if matches!(decision.source, Source::Local | Source::Open | Source::Closed) {
                    count(&self.0.fallback);
                }
            }
            LimiterEvent::Failed { .. } => _ = count(&self.0.failed),
            LimiterEvent::StoreHealth { status, .. } => println!("the store is {status:?}"),
            _ => {}
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let metrics = Arc::new(Metrics::default());
    let limiter = Limiter::builder()
        .name("api")
        .rule(Rule::token_bucket("burst", Quota::per_second(1).burst(3)))
        .observer(MetricsObserver(Arc::clone(&metrics)))
        .build()?;
    for _ in 0..10 {
        let _ = limiter.check_now("user:42")?;
    }
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!("decisions_total{{policy=\"api\",verdict=\"allow\"}} {}", read(&metrics.allowed));
    println!("decisions_total{{policy=\"api\",verdict=\"deny\"}} {}", read(&metrics.denied));
    println!("fallback_total{{policy=\"api\"}} {}", read(&metrics.fallback));
    println!("failures_total{{policy=\"api\"}} {}", read(&metrics.failed));
    Ok(())
}
