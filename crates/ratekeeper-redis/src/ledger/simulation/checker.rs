//! Checker: all admissions of one key against the bound of each rule.
//!
//! | rule | the bound |
//! |---|---|
//! | bucket | a meter that leaks at the rate never holds more than the capacity |
//! | shaped bucket | in addition, at the times requests proceed, no more than the largest cost |
//! | stepwise | capacity + lump × (span ÷ period + 1) in any span |
//! | epoch and calendar windows | the limit in every window |
//! | windows from the first request | twice the limit in any span as long as one |
//! | log, counter | the limit in any span as long as the window |
//! | concurrency | the limit at any moment |
//!
//! With several processes, each share that is used adds its bound once, and so does each share lost in a restart. Each
//! loss of the store's data adds a whole limit.

use std::sync::Arc;

use ratekeeper_core::{
    LeaseId, Span, Timestamp,
    algorithm::{Algorithm, AnyAlgorithm, Bucket, Meter, Schedule},
};

use crate::policies::Version;

#[derive(Clone, Copy, Debug)]
pub(super) struct Admission {
    pub(super) cost: u64,
    /// The time at which it proceeds.
    pub(super) at: Timestamp,
    pub(super) process: usize,
    pub(super) lease: LeaseId,
    pub(super) ended: Option<Timestamp>,
}

pub(super) struct Books {
    version: Arc<Version>,
    processes: u64,
    pub(super) admissions: Vec<Admission>,
    shares: u64,
    wholes: u64,
}

impl Books {
    pub(super) fn new(version: &Arc<Version>, processes: u64) -> Self {
        Self { version: Arc::clone(version), processes, admissions: Vec::new(), shares: 0, wholes: 0 }
    }

    /// A process starts to use its share, which does not include what other processes used since its last report.
    pub(super) fn begin_share(&mut self) {
        self.shares += u64::from(self.processes > 1);
    }

    pub(super) fn forgive_share(&mut self) {
        self.shares += 1;
    }

    pub(super) fn forgive_whole(&mut self) {
        self.wholes += 1;
    }

    pub(super) fn check(mut self) -> Result<(), String> {
        self.admissions.sort_by_key(|admission| admission.at);
        let version = Arc::clone(&self.version);
        let shares = version.local.as_ref().map_or(&[][..], |local| local.share.rules());
        for (rule, share) in version.policy.rules().iter().zip(shares) {
            let found = self.check_rule(rule.algorithm(), share.algorithm());
            found.map_err(|found| format!("{}: {found}\n{:?}\n{:?}", rule.name(), rule.rule(), self.admissions))?;
        }
        Ok(())
    }

    fn check_rule(&self, whole: &AnyAlgorithm, share: &AnyAlgorithm) -> Result<(), String> {
        let dearest = self.admissions.iter().map(|admission| admission.cost).max().unwrap_or(0);
        let most = |span: Span| {
            let more = self.shares * bound(share, dearest, span)? + self.wholes * whole.limit();
            Some(bound(whole, dearest, span)? + more)
        };
        let over = |found: u64, span: Span| match most(span) {
            Some(most) if found > most => Err(format!("{found} of {most} in {span}")),
            _ => Ok(()),
        };
        match whole {
            AnyAlgorithm::Window(it) if !matches!(it.schedule(), Schedule::FirstRequest(_)) => {
                let window = |admission: &Admission| it.used(&Meter::default(), admission.at).1;
                for window in self.admissions.chunk_by(|one, other| window(one) == window(other)) {
                    over(window.iter().map(|admission| admission.cost).sum(), Span::ZERO)?;
                }
                Ok(())
            }
            AnyAlgorithm::Leases(it) => {
                for moment in self.admissions.iter().map(|admission| admission.at) {
                    let ends = |one: &Admission| {
                        one.ended.unwrap_or(Timestamp::from_micros(u64::MAX)).min(one.at + it.lease())
                    };
                    let held = self.admissions.iter().filter(|one| one.at <= moment && ends(one) > moment);
                    over(held.map(|one| one.cost).sum(), Span::ZERO)?;
                }
                Ok(())
            }
            _ => {
                for (first, from) in self.admissions.iter().enumerate() {
                    let mut sum = 0;
                    for to in &self.admissions[first..] {
                        sum += to.cost;
                        over(sum, to.at.since(from.at))?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Units that drain in a span, rounded up.
fn drains(bucket: &Bucket, span: Span) -> u64 {
    let units = u128::from(span.as_micros()) * u128::from(bucket.drain());
    u64::try_from(units.div_ceil(u128::from(bucket.period()))).unwrap_or(u64::MAX)
}

/// The most permits in a span; for windows in one of them, for leases at one time. `None` if the span is longer than
/// the bound covers.
fn bound(limiting: &AnyAlgorithm, dearest: u64, span: Span) -> Option<u64> {
    Some(match limiting {
        // Times of admission are whole microseconds, so the last unit may be early by one.
        AnyAlgorithm::Bucket(it) if it.is_shaped() => {
            dearest + drains(it, span + Span::from_micros(1)).div_ceil(it.unit())
        }
        AnyAlgorithm::Bucket(it) => (it.capacity() + drains(it, span)) / it.unit(),
        AnyAlgorithm::Stepwise(it) => it.limit() + it.lump() * (span.as_micros() / it.per().as_micros() + 1),
        AnyAlgorithm::Window(it) => match it.schedule() {
            Schedule::FirstRequest(per) if span >= per => return None,
            Schedule::FirstRequest(_) => 2 * it.limit(),
            Schedule::Epoch(_) | Schedule::Calendar(_) | Schedule::Local(_) => it.limit(),
        },
        AnyAlgorithm::Log(it) if span >= it.window() => return None,
        AnyAlgorithm::Counter(it) if span >= it.window() => return None,
        AnyAlgorithm::Log(_) | AnyAlgorithm::Counter(_) | AnyAlgorithm::Leases(_) => limiting.limit(),
        AnyAlgorithm::AutoBlock(_) => return None,
    })
}
