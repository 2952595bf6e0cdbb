//! One rule as a script sees it: which algorithm, whether it only watches or counts refusals, and its numbers.

use tollgate_core::{
    Calendar, CalendarUnit, Policy, ReadyRule,
    algorithm::{Algorithm, Limiting, Schedule},
};

/// A rule's part of a shape.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Piece {
    pub(crate) kind: Kind,
    /// Asked and counted, but nobody waits for it or is refused by it.
    pub(crate) shadow: bool,
    /// Charged for refused requests as well.
    pub(crate) counts_refused: bool,
}

/// Which Lua file, and which variant of it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Kind {
    Bucket,
    Shaped,
    Stepwise,
    Window,
    Calendar,
    Log,
    Counter,
    Leases,
}

impl Piece {
    /// The pieces of a policy's rules.
    pub(crate) fn of(policy: &Policy) -> Vec<Self> {
        let piece = |rule: &ReadyRule| Self {
            kind: Kind::of(rule),
            shadow: rule.is_shadow(),
            counts_refused: rule.counts_refused(),
        };
        policy.rules().iter().map(piece).collect()
    }
}

impl Kind {
    pub(crate) fn of(rule: &ReadyRule) -> Self {
        match rule.limiting() {
            Limiting::Bucket(bucket) if bucket.is_shaped() => Self::Shaped,
            Limiting::Bucket(_) => Self::Bucket,
            Limiting::Stepwise(_) => Self::Stepwise,
            Limiting::Window(window) => match window.schedule() {
                Schedule::Calendar(_) => Self::Calendar,
                Schedule::Epoch(_) | Schedule::FirstRequest(_) => Self::Window,
            },
            Limiting::Log(_) => Self::Log,
            Limiting::Counter(_) => Self::Counter,
            Limiting::Leases(_) => Self::Leases,
        }
    }

    /// Whether the state is two numbers.
    pub(crate) fn is_meter(self) -> bool {
        matches!(self, Self::Bucket | Self::Shaped | Self::Stepwise | Self::Window | Self::Calendar)
    }
}

/// The numbers of a rule, in the order its Lua file names them.
pub(crate) fn numbers(rule: &ReadyRule) -> Vec<f64> {
    let exact: Vec<i64> = match rule.limiting() {
        Limiting::Bucket(it) => whole([it.capacity(), it.unit(), it.drain(), it.tolerance().0]),
        Limiting::Stepwise(it) => whole([it.limit(), it.lump(), it.per().0, it.tolerance().0]),
        Limiting::Window(it) => match it.schedule() {
            Schedule::Epoch(per) => whole([it.limit(), per.0, per.0, it.tolerance().0]),
            // Windows that may begin at any moment begin at multiples of one microsecond.
            Schedule::FirstRequest(per) => whole([it.limit(), per.0, 1, it.tolerance().0]),
            Schedule::Calendar(calendar) => {
                let mut numbers = whole([it.limit(), unit(calendar), 0, it.tolerance().0]);
                numbers[2] = i64::from(calendar.offset.as_minutes()) * 60_000_000;
                numbers
            }
        },
        Limiting::Log(it) => whole([it.limit(), it.window().0, it.tolerance().0]),
        Limiting::Counter(it) => whole([it.limit(), it.window().0, it.slice().0, it.tolerance().0]),
        Limiting::Leases(it) => whole([it.limit(), it.lease().0, it.tolerance().0]),
    };
    #[allow(clippy::cast_precision_loss, reason = "every bound of the core stays below 2^53")]
    exact.into_iter().map(|number| number as f64).collect()
}

fn whole<const N: usize>(numbers: [u64; N]) -> Vec<i64> {
    numbers.into_iter().map(|number| i64::try_from(number).unwrap_or(i64::MAX)).collect()
}

fn unit(calendar: Calendar) -> u64 {
    match calendar.unit {
        CalendarUnit::Day => 0,
        CalendarUnit::Week => 1,
        CalendarUnit::Month => 2,
    }
}
