//! One rule as scripts see it: algorithm, shadow and count-refused flags, and numbers.

use ratekeeper_core::{
    Calendar, CalendarUnit, Policy, ReadyRule, Timestamp,
    algorithm::{Algorithm, AnyAlgorithm, Schedule},
};

/// A rule's part of a shape.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Piece {
    pub(crate) kind: Kind,
    /// Evaluated and charged, never enforced.
    pub(crate) shadow: bool,
    /// Charged for refused requests as well.
    pub(crate) counts_refused: bool,
    /// Whether the key may have allotments: its policy is prepaid.
    pub(crate) prepaid: bool,
}

/// The algorithm: which Lua file, and which variant of it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Kind {
    Bucket,
    Shaped,
    /// A bucket with a rounded rate, and the same shaped.
    Rounded,
    RoundedShaped,
    Stepwise,
    Window,
    Calendar,
    Local,
    Log,
    Counter,
    Leases,
    AutoBlock,
}

impl Piece {
    /// The pieces of a policy's rules.
    pub(crate) fn of(policy: &Policy) -> Vec<Self> {
        let prepaid = policy.prepaid().is_some();
        let piece = |rule: &ReadyRule| Self {
            kind: Kind::of(rule),
            shadow: rule.is_shadow(),
            counts_refused: rule.changes_on_refusal(),
            prepaid,
        };
        policy.rules().iter().map(piece).collect()
    }
}

impl Kind {
    pub(crate) fn of(rule: &ReadyRule) -> Self {
        match rule.algorithm() {
            AnyAlgorithm::Bucket(bucket) => match (bucket.is_rounded(), bucket.is_shaped()) {
                (false, false) => Self::Bucket,
                (false, true) => Self::Shaped,
                (true, false) => Self::Rounded,
                (true, true) => Self::RoundedShaped,
            },
            AnyAlgorithm::Stepwise(_) => Self::Stepwise,
            AnyAlgorithm::Window(window) => match window.schedule() {
                Schedule::Calendar(_) => Self::Calendar,
                Schedule::Local(_) => Self::Local,
                Schedule::Epoch(_) | Schedule::FirstRequest(_) => Self::Window,
            },
            AnyAlgorithm::Log(_) => Self::Log,
            AnyAlgorithm::Counter(_) => Self::Counter,
            AnyAlgorithm::Leases(_) => Self::Leases,
            AnyAlgorithm::AutoBlock(_) => Self::AutoBlock,
        }
    }

    /// Whether the state is two numbers, not a list.
    pub(crate) fn is_meter(self) -> bool {
        !matches!(self, Self::Log | Self::Counter | Self::Leases)
    }

    /// Whether requests are spaced evenly, by the sections with the suffix `shaped`.
    pub(crate) fn is_shaped(self) -> bool {
        matches!(self, Self::Shaped | Self::RoundedShaped)
    }
}

/// The numbers of a rule, in the order its Lua file names them. Those of a time zone are for calls at about `now`.
pub(crate) fn numbers(rule: &ReadyRule, now: Timestamp) -> Vec<f64> {
    let exact: Vec<i64> = match rule.algorithm() {
        AnyAlgorithm::Bucket(it) if it.is_rounded() => whole([
            it.capacity(),
            it.unit(),
            it.drain(),
            it.period(),
            it.half_permit().as_micros(),
            it.tolerance().as_micros(),
        ]),
        AnyAlgorithm::Bucket(it) => whole([it.capacity(), it.unit(), it.drain(), it.tolerance().as_micros()]),
        AnyAlgorithm::Stepwise(it) => whole([it.limit(), it.lump(), it.per().as_micros(), it.tolerance().as_micros()]),
        AnyAlgorithm::Window(it) => match it.schedule() {
            Schedule::Epoch(per) => whole([it.limit(), per.as_micros(), per.as_micros(), it.tolerance().as_micros()]),
            // Windows that start at any time start at multiples of one microsecond.
            Schedule::FirstRequest(per) => whole([it.limit(), per.as_micros(), 1, it.tolerance().as_micros()]),
            Schedule::Calendar(calendar) => {
                let mut numbers = whole([it.limit(), unit(calendar), 0, it.tolerance().as_micros()]);
                numbers[2] = i64::from(calendar.offset.as_minutes()) * 60_000_000;
                numbers
            }
            Schedule::Local(_) => {
                let starts = it.starts_around(now).unwrap_or_default().map(Timestamp::as_micros);
                let mut numbers = whole([it.limit()]);
                numbers.extend(whole(starts));
                numbers.extend(whole([it.tolerance().as_micros()]));
                numbers
            }
        },
        AnyAlgorithm::Log(it) => whole([it.limit(), it.window().as_micros(), it.tolerance().as_micros()]),
        AnyAlgorithm::Counter(it) => {
            whole([it.limit(), it.window().as_micros(), it.slice().as_micros(), it.tolerance().as_micros()])
        }
        AnyAlgorithm::Leases(it) => whole([it.limit(), it.lease().as_micros(), it.tolerance().as_micros()]),
        AnyAlgorithm::AutoBlock(it) => {
            let (within, block, most) = (it.within().as_micros(), it.block().as_micros(), it.at_most().as_micros());
            whole([it.limit(), within, block, it.grow(), most, it.tolerance().as_micros()])
        }
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
        CalendarUnit::Year => 3, // no window of an offset has years
    }
}
