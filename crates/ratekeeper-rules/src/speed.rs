//! Speed of a policy in rule files: `speed`, `allotments`, and their defaults.
//!
//! A field of the policy wins over the same field of `defaults`, which wins over the number of core. Numbers are checked
//! where they are written. The relation of `hold` to `turn` is checked where either is written, because the other may be
//! inherited.

use std::ops::RangeInclusive;

use ratekeeper_core::{MIN_TURN, Period, Policy, Prepaid, Span, Speed};

use crate::{
    duration,
    problem::{Report, Spot},
    spec::{AllotmentsSpec, DurationWord, SpeedWord},
    tree::shown,
};

/// `speed` and `allotments` as one mapping has them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpeedFields {
    pub(crate) speed: Option<SpeedWord>,
    pub(crate) allotments: AllotmentsSpec,
}

impl SpeedFields {
    pub(crate) fn new(speed: Option<SpeedWord>, allotments: Option<AllotmentsSpec>) -> Self {
        Self { speed, allotments: allotments.unwrap_or_default() }
    }

    fn is_prepaid(&self) -> bool {
        matches!(self.speed, Some(SpeedWord::Prepaid))
    }

    /// These fields, and those of `defaults` where they are absent.
    fn or(self, defaults: &Self) -> Self {
        let (own, other) = (self.allotments, defaults.allotments);
        Self {
            speed: self.speed.or(defaults.speed),
            allotments: AllotmentsSpec {
                hot: own.hot.or(other.hot),
                turn: own.turn.or(other.turn),
                hold: own.hold.or(other.hold),
                remember: own.remember.or(other.remember),
            },
        }
    }

    fn prepaid(&self) -> Prepaid {
        let AllotmentsSpec { hot, turn, hold, remember } = self.allotments;
        let mut prepaid = Prepaid::new();
        if let Some(hot) = hot {
            prepaid = prepaid.hot_per_second(hot.0);
        }
        if let Some(turn) = span(turn) {
            prepaid = prepaid.turn(turn);
        }
        if let Some(hold) = span(hold) {
            prepaid = prepaid.hold(hold);
        }
        if let Some(remember) = span(remember) {
            prepaid = prepaid.remember(remember);
        }
        prepaid
    }
}

/// Checks the fields in `defaults`. `used`: whether a policy of the file sets `speed: prepaid` itself, so that it uses
/// the numbers.
pub(crate) fn check_defaults(fields: &SpeedFields, used: bool, spot: Spot<'_>, report: &mut Report) {
    // A `speed` that could not be read has been reported.
    let is_unread = spot.has("speed") && fields.speed.is_none();
    if spot.has("allotments") && !fields.is_prepaid() && !used && !is_unread {
        let message = "allotments belong to `speed: prepaid`, which no policy of this file has; add it, or leave \
                       allotments out";
        spot.blame_key("allotments", report, message);
    }
    check_numbers(&fields.allotments, fields, spot, report);
}

/// The speed of a policy or limit with these fields. `what` is its kind, for messages.
pub(crate) fn check(
    fields: &SpeedFields,
    defaults: &SpeedFields,
    what: &str,
    spot: Spot<'_>,
    report: &mut Report,
) -> Speed {
    let all = fields.or(defaults);
    let is_unread = spot.has("speed") && fields.speed.is_none();
    if spot.has("allotments") && !all.is_prepaid() && !is_unread {
        let message =
            format!("allotments belong to `speed: prepaid`, and the {what} is exact; add it, or leave allotments out");
        spot.blame_key("allotments", report, message);
    }
    check_numbers(&fields.allotments, &all, spot, report);
    if all.is_prepaid() { Speed::Prepaid(all.prepaid()) } else { Speed::Exact }
}

/// Reports `speed: prepaid` of the policy itself if one of its rules cannot be prepaid. An inherited one has no effect on
/// such a policy, which `config check` mentions.
pub(crate) fn check_rules(fields: &SpeedFields, policy: &Policy, spot: Spot<'_>, report: &mut Report) {
    if let (true, Some((index, reason))) = (fields.is_prepaid(), policy.not_prepayable()) {
        let rule = policy.rules().get(index).map_or("", |rule| rule.name());
        let message = format!(
            "speed is prepaid, but rule \"{}\" cannot be: {reason}; use exact, or move the rule to another policy",
            shown(rule)
        );
        spot.blame("speed", report, message);
    }
}

/// Reports numbers out of range. `own` are those written here, `all` includes inherited ones.
fn check_numbers(own: &AllotmentsSpec, all: &SpeedFields, policy: Spot<'_>, report: &mut Report) {
    let Some(node) = policy.node.get("allotments") else { return };
    let spot = Spot { node, path: &policy.path.key("allotments") };
    let range = |field, word: Option<DurationWord>, range: RangeInclusive<Span>, note, report: &mut Report| {
        let Some(DurationWord(period)) = word else { return };
        if !matches!(period, Period::Span(span) if range.contains(&span)) {
            let (least, most) = (duration::format(*range.start()), duration::format(*range.end()));
            let found = duration::format_period(period);
            spot.blame(field, report, format!("{field} is {found}; use {least}{note} to {most}"));
        }
    };
    range("turn", own.turn, MIN_TURN..=Span::SECOND, "", report);
    range("remember", own.remember, Span::ZERO..=Prepaid::new().remember, "", report);
    let turn = all.prepaid().turn;
    let least = turn + turn;
    range("hold", own.hold, least..=Span::MINUTE, ", two turns,", report);
    if let (None, Some(_), Some(hold)) = (own.hold, own.turn, span(all.allotments.hold))
        && hold < least
    {
        let (hold, turn, least) = (duration::format(hold), duration::format(turn), duration::format(least));
        let message = format!("turn is {turn}, more than half of the hold of {hold} in defaults; add `hold: {least}`");
        spot.blame("turn", report, message);
    }
}

fn span(word: Option<DurationWord>) -> Option<Span> {
    match word?.0 {
        Period::Span(span) => Some(span),
        Period::Month | Period::Year => None,
    }
}
