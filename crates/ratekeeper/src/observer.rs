//! Observers: a hook for metrics and logs of everything that a limiter does.
//!
//! Without an observer a check costs one branch more. An observer is called on the task that asked, before the result is
//! returned, so it must not block.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ratekeeper_core::{Decision, HealthStatus, Source, Store, StoreError, Verb};

/// Receives the events of a limiter. Every `Fn(&LimiterEvent)` is one.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
/// use ratekeeper::{Limiter, LimiterEvent, Quota, Rule};
///
/// let denied = Arc::new(AtomicU64::new(0));
/// let counter = Arc::clone(&denied);
/// let limiter = Limiter::builder()
///     .rule(Rule::token_bucket("burst", Quota::per_day(1)))
///     .observer(move |event: &LimiterEvent<'_>| {
///         if let LimiterEvent::Decided { decision, .. } = event && !decision.is_allowed() {
///             counter.fetch_add(1, Ordering::Relaxed);
///         }
///     })
///     .build()?;
/// let _ = (limiter.check_now("user:42")?, limiter.check_now("user:42")?);
/// assert_eq!(denied.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Called for every event, on the task that caused it.
    fn observe(&self, event: &LimiterEvent<'_>);
}

impl<F: Fn(&LimiterEvent<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &LimiterEvent<'_>) {
        self(event);
    }
}

/// What a limiter has done. Keys are for logs; as labels of metrics they are too many.
#[derive(Debug)]
#[non_exhaustive]
pub enum LimiterEvent<'a> {
    /// A request was decided, by the store or by fallback ([`Decision::source`]).
    #[non_exhaustive]
    Decided {
        /// The policy.
        policy: &'a str,
        /// The key.
        key: &'a str,
        /// The permits that the verb was about.
        cost: u64,
        /// What was asked. Only a take is admitted or denied.
        verb: &'a Verb,
        /// The result.
        decision: &'a Decision,
    },
    /// A request could not be decided.
    #[non_exhaustive]
    Failed {
        /// The policy.
        policy: &'a str,
        /// The key.
        key: &'a str,
        /// The permits that the verb was about.
        cost: u64,
        /// What was asked.
        verb: &'a Verb,
        /// The reason.
        error: &'a StoreError,
    },
    /// The health of the store has changed: its servers were lost, in part or all of them, or are back. Noticed when a
    /// request is decided by fallback, and from then on with every request until the store is up.
    #[non_exhaustive]
    StoreHealth {
        /// The new status, with the reason.
        status: &'a HealthStatus,
    },
    /// Permits were acquired, at once or after a wait.
    #[non_exhaustive]
    Waited {
        /// The policy.
        policy: &'a str,
        /// The key.
        key: &'a str,
        /// The permits.
        cost: u64,
        /// The time from the call to the grant.
        waited: Duration,
    },
    /// A wait ended without the permits: its future was dropped, or woke up too late. The permits were refunded.
    #[non_exhaustive]
    WaitCancelled {
        /// The policy.
        policy: &'a str,
        /// The key.
        key: &'a str,
        /// The permits.
        cost: u64,
    },
}

/// The observer of a limiter, and the health of the store as it was last reported.
pub(crate) struct Observed {
    observer: Arc<dyn Observer>,
    /// Whether `reported` is [`HealthStatus::Up`]; read without the lock.
    is_up: AtomicBool,
    reported: Mutex<HealthStatus>,
}

impl Observed {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, is_up: AtomicBool::new(true), reported: Mutex::default() }
    }

    pub(crate) fn event(&self, event: &LimiterEvent<'_>) {
        self.observer.observe(event);
    }

    /// Reports the result of a store call, and a change of the store's health that it reveals.
    #[cold]
    #[inline(never)]
    pub(crate) fn decided<S: Store>(
        &self,
        store: &S,
        policy: &str,
        (key, cost): (&str, u64),
        verb: &Verb,
        decided: Result<&Decision, &StoreError>,
    ) {
        let by_fallback = match decided {
            Ok(decision) => {
                self.event(&LimiterEvent::Decided { policy, key, cost, verb, decision });
                matches!(decision.source, Source::Local | Source::Open | Source::Closed)
            }
            Err(error) => {
                self.event(&LimiterEvent::Failed { policy, key, cost, verb, error });
                error.is_transient()
            }
        };
        if by_fallback || !self.is_up.load(Ordering::Relaxed) {
            self.report_health(store.health());
        }
    }

    fn report_health(&self, status: HealthStatus) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.name() == status.name() {
            return;
        }
        reported.clone_from(&status);
        self.is_up.store(status == HealthStatus::Up, Ordering::Relaxed);
        // The observer may ask the limiter; it must not find the lock taken.
        drop(reported);
        self.event(&LimiterEvent::StoreHealth { status: &status });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_health_is_reported_once() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let observed = Observed::new(Arc::new({
            let seen = Arc::clone(&seen);
            move |event: &LimiterEvent<'_>| {
                if let LimiterEvent::StoreHealth { status } = event {
                    seen.lock().unwrap().push(status.name());
                }
            }
        }));
        let down = |reason: &str| HealthStatus::Down(reason.to_owned());
        for status in [HealthStatus::Up, down("refused"), down("timed out"), HealthStatus::Up, HealthStatus::Up] {
            observed.report_health(status);
        }
        assert_eq!(*seen.lock().unwrap(), ["down", "up"]);
    }
}
