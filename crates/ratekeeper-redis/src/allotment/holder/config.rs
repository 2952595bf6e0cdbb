//! The numbers of a policy's holders: sizes and times. Safety does not depend on them.

use ratekeeper_core::{Policy, Prepaid, Span, algorithm::Algorithm};

use super::{half, times};

/// The numbers of a policy's holders.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HolderConfig {
    /// The time between two calls at saturation is about half of this; see [`HolderConfig::pace`].
    pub(crate) turn: Span,
    /// How long an allotment lasts.
    pub(crate) hold: Span,
    /// The longest time for which a denial is repeated.
    pub(crate) remember: Span,
    /// Permits per second from which a key is hot; it stays hot down to half of that.
    pub(crate) hot_per_second: u64,
    /// A larger cost always asks the store.
    pub(crate) largest_cost: u64,
}

impl HolderConfig {
    /// The numbers for a policy; `None` if it is not prepaid.
    pub(crate) fn of(policy: &Policy) -> Option<Self> {
        let prepaid: Prepaid = policy.prepaid()?;
        let turn = policy.turn(prepaid.turn);
        let hold = if prepaid.hold == Span::ZERO { times(turn, 10) } else { prepaid.hold.max(times(turn, 2)) };
        let enforced = policy.rules().iter().filter(|rule| !rule.is_shadow());
        let limit = enforced.map(|rule| rule.algorithm().limit()).min().unwrap_or_default();
        Some(Self {
            turn,
            hold,
            remember: prepaid.remember,
            hot_per_second: prepaid.hot_per_second,
            largest_cost: limit / 4,
        })
    }

    /// The time from a short grant to the next call: half a turn. Short turns are of small bursts, of which calls every half
    /// turn would have little to grant; so up to [`MIN_PACE`] it is a turn and a quarter, if denials last that long.
    pub(super) fn pace(&self) -> Span {
        let longer = Span::from_micros(self.turn.as_micros() * 5 / 4).min(MIN_PACE).min(self.remember);
        half(self.turn).max(longer)
    }
}

/// The shortest time from a short grant to the next call, unless the turn is shorter.
const MIN_PACE: Span = Span::from_millis(30);
