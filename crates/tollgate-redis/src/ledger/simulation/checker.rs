//! All admissions of one key, held against the bound of each rule.
//!
//! | rule | the bound |
//! |---|---|
//! | bucket | a meter that leaks at the rate never holds more than the capacity |
//! | shaped bucket | nor, at the moments requests go, more than the largest of them |
//! | stepwise | capacity + lump × (span ÷ period + 1) in any span |
//! | epoch and calendar windows | the limit in every window |
//! | windows from the first request | twice the limit in any span as long as one |
//! | log, counter | the limit in any span as long as the window |
//! | concurrency | the limit at any moment |
//!
//! With several processes, each share that began to be used adds its own bound once; so does each share that was forgotten
//! by a restart, and each loss of the store's memory adds a whole limit.

use std::sync::Arc;

use tollgate_core::{
    LeaseId, Micros,
    algorithm::{Algorithm, Limiting, Meter, Schedule},
};

use crate::policies::Version;

#[derive(Clone, Copy, Debug)]
pub(super) struct Admission {
    pub(super) cost: u64,
    /// When it goes.
    pub(super) at: Micros,
    pub(super) process: usize,
    pub(super) lease: LeaseId,
    pub(super) ended: Option<Micros>,
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

    /// A process begins to use its share: with others about, what they have used since the last word is not in it.
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
            let found = self.check_rule(rule.limiting(), share.limiting());
            found.map_err(|found| format!("{}: {found}\n{:?}\n{:?}", rule.name(), rule.rule(), self.admissions))?;
        }
        Ok(())
    }

    fn check_rule(&self, whole: &Limiting, share: &Limiting) -> Result<(), String> {
        let dearest = self.admissions.iter().map(|admission| admission.cost).max().unwrap_or(0);
        let most = |span: Micros| {
            let more = self.shares * bound(share, dearest, span)? + self.wholes * whole.limit();
            Some(bound(whole, dearest, span)? + more)
        };
        let over = |found: u64, span: Micros| match most(span) {
            Some(most) if found > most => Err(format!("{found} of {most} in {span}")),
            _ => Ok(()),
        };
        match whole {
            Limiting::Window(it) if !matches!(it.schedule(), Schedule::FirstRequest(_)) => {
                let window = |admission: &Admission| it.used(&Meter::default(), admission.at).1;
                for window in self.admissions.chunk_by(|one, other| window(one) == window(other)) {
                    over(window.iter().map(|admission| admission.cost).sum(), Micros::ZERO)?;
                }
                Ok(())
            }
            Limiting::Leases(it) => {
                for moment in self.admissions.iter().map(|admission| admission.at) {
                    let ends = |one: &Admission| one.ended.unwrap_or(Micros(u64::MAX)).min(one.at + it.lease());
                    let held = self.admissions.iter().filter(|one| one.at <= moment && ends(one) > moment);
                    over(held.map(|one| one.cost).sum(), Micros::ZERO)?;
                }
                Ok(())
            }
            _ => {
                for (first, from) in self.admissions.iter().enumerate() {
                    let mut sum = 0;
                    for to in &self.admissions[first..] {
                        sum += to.cost;
                        over(sum, to.at - from.at)?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// The most permits in a span; for windows in one of them, for leases at one moment. None where the span is too long to
/// say anything.
fn bound(limiting: &Limiting, dearest: u64, span: Micros) -> Option<u64> {
    Some(match limiting {
        // Moments that requests are told to go at are whole microseconds, so the last unit may be early by one.
        Limiting::Bucket(it) if it.is_shaped() => dearest + (span.0 + 1).saturating_mul(it.drain()).div_ceil(it.unit()),
        Limiting::Bucket(it) => (it.capacity() + span.0.saturating_mul(it.drain())) / it.unit(),
        Limiting::Stepwise(it) => it.limit() + it.lump() * (span.0 / it.per().0 + 1),
        Limiting::Window(it) => match it.schedule() {
            Schedule::FirstRequest(per) if span >= per => return None,
            Schedule::FirstRequest(_) => 2 * it.limit(),
            Schedule::Epoch(_) | Schedule::Calendar(_) => it.limit(),
        },
        Limiting::Log(it) if span >= it.window() => return None,
        Limiting::Counter(it) if span >= it.window() => return None,
        Limiting::Log(_) | Limiting::Counter(_) | Limiting::Leases(_) => limiting.limit(),
    })
}
