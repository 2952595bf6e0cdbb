//! Validation of `block`, the automatic block of a policy. It becomes the policy's last rule, named `block`.

use std::time::Duration;

use ratekeeper_core::{BlockAfter, Period, Rule, Span};

use crate::{
    duration,
    problem::{Report, Spot},
    spec::{BlockSpec, DurationWord},
};

/// The rule; `None` without a `block`, or if a problem was reported.
pub(super) fn check(spec: Option<&BlockSpec>, rules: &[Rule], policy: Spot<'_>, report: &mut Report) -> Option<Rule> {
    let node = policy.node.get("block")?;
    let spec = spec?;
    let spot = Spot { node, path: &policy.path.key("block") };
    let before = report.count();
    report.missing(spot, "after", "the block has no number of denials; add one, such as `after: 20`");
    report.missing(spot, "within", "the block has no span in which denials count; add one, such as `within: 1m`");
    report.missing(spot, "for", "the block has no length; add one, such as `for: 10m`");
    for (field, word) in [("within", spec.within), ("for", spec.length), ("at_most", spec.at_most)] {
        if let Some(DurationWord(period @ (Period::Month | Period::Year))) = word {
            let found = duration::format_period(period);
            spot.blame(field, report, format!("{field} is {found}, which only the calendar can measure; use a span"));
        }
    }
    if rules.iter().any(|rule| rule.name() == NAME) {
        policy.blame(
            "block",
            report,
            "block is the name of its rule, which a rule of the policy has already; rename that",
        );
    }
    if report.count() > before {
        return None;
    }
    let span = |word: Option<DurationWord>| match word?.0 {
        Period::Span(span) => Some(Duration::from(span)),
        _ => None,
    };
    let (within, length) = (span(spec.within)?, span(spec.length)?);
    let mut after = BlockAfter::new(spec.after?.0, within, length);
    if spec.grow.is_some() || spec.at_most.is_some() {
        let at_most = span(spec.at_most).unwrap_or_else(|| length.max(Duration::from(Span::DAY)));
        after = after.growing(spec.grow.map_or(1, |grow| grow.0), at_most);
    }
    let rule = Rule::auto_block(NAME, after);
    match rule.compile() {
        Ok(_) => Some(rule),
        Err(error) => {
            spot.blame(error.problem.field, report, error.problem.to_string());
            None
        }
    }
}

/// The name of the rule in decisions and metrics.
const NAME: &str = "block";
