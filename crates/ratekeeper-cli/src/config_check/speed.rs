//! Speed of policies in `config check`: the description, and warnings where `speed: prepaid` has little or no effect.

use ratekeeper_core::{
    AlgorithmSpec, Effect, MIN_TURN, Policy, PolicyError, Prepaid, Rule, Span, Speed, algorithm::Algorithm,
};
use ratekeeper_rules::{Allowance, EnvoyDescriptor, RuleFile, override_policy};

use crate::report::shown;

/// `prepaid, turn 100ms`; `None` if the store decides every request.
pub(super) fn describe(policy: &Policy) -> Option<String> {
    policy.prepaid().map(|prepaid| format!("prepaid, turn {}", policy.turn(prepaid.turn)))
}

/// Warnings about the policies, overrides and limits of a file.
pub(super) fn warn(file: &RuleFile, warnings: &mut Vec<String>) {
    let mut add = |line: usize, message: String| warnings.push(format!("{}:{line}: warning: {message}", file.file));
    for entry in file.policies() {
        let Speed::Prepaid(prepaid) = entry.policy.speed() else { continue };
        if entry.policy.effect() != Effect::Limit {
            continue;
        }
        if let Some(Warning { message, remedy }) = warning(&entry.policy, prepaid) {
            add(entry.line, format!("policy {}: {message}; {remedy}", shown(entry.policy.name())));
        }
        for one in &entry.overrides {
            let key = one.values.iter().map(|value| shown(value)).collect::<Vec<_>>().join(", ");
            if one.effect != Effect::Limit {
                continue;
            }
            let found = override_policy(&entry.policy, &one.rules, one.effect)
                .ok()
                .and_then(|policy| warning(&policy, prepaid));
            // Without the remedy, because the speed is that of the policy.
            if let Some(Warning { message, .. }) = found {
                add(one.line, format!("the override for {key}: {message}"));
            }
        }
    }
    warn_limits(file.descriptors(), &mut add);
}

/// Limits of the Envoy format count refused requests unless the server is started without that.
fn warn_limits(level: &[EnvoyDescriptor], add: &mut impl FnMut(usize, String)) {
    for descriptor in level {
        if let Some(Allowance::Limited { policy, .. }) = descriptor.limit.as_ref().map(|limit| &limit.allowance)
            && let Speed::Prepaid(prepaid) = policy.speed()
        {
            let found = without_refused(policy).ok().and_then(|policy| warning(&policy, prepaid));
            let Warning { message, remedy } = found.unwrap_or_else(|| Warning {
                message: "refused requests have to reach the store to be counted, so it is decided exactly".to_owned(),
                remedy: "start the server with `--envoy-all-or-none`".to_owned(),
            });
            add(descriptor.line, format!("limit {}: {message}; {remedy}", shown(&descriptor.name)));
        }
        warn_limits(&descriptor.descriptors, add);
    }
}

fn without_refused(policy: &Policy) -> Result<Policy, PolicyError> {
    let rules: Vec<Rule> = policy.rules().iter().map(|ready| ready.rule().clone().count_refused(false)).collect();
    Policy::new(policy.name(), rules)
}

/// Why a prepaid policy is decided exactly or gains little, and what to write instead.
struct Warning {
    message: String,
    remedy: String,
}

fn warning(policy: &Policy, prepaid: Prepaid) -> Option<Warning> {
    let exact = |cause: String| {
        let remedy = "write `speed: exact` to confirm".to_owned();
        Some(Warning { message: format!("{cause}, so it is decided exactly"), remedy })
    };
    let rule = |index: usize| shown(policy.rules().get(index).map_or("", |rule| rule.name()));
    if let Some((index, reason)) = policy.not_prepayable() {
        return exact(format!("rule {} cannot be prepaid ({reason})", rule(index)));
    }
    let enforced = policy.rules().iter().enumerate().filter(|(_, rule)| !rule.is_shadow());
    let Some((narrowest, turn)) =
        enforced.map(|(index, rule)| (index, rule.algorithm().turn())).min_by_key(|(_, turn)| *turn)
    else {
        return exact("no rule is enforced".to_owned());
    };
    let (cause, remedy) = match policy.rules().get(narrowest).map(|rule| rule.rule().algorithm()) {
        Some(AlgorithmSpec::TokenBucket { .. } | AlgorithmSpec::LeakyBucket { .. }) => {
            (format!("the burst of rule {} is too small to gain", rule(narrowest)), "a larger burst")
        }
        _ => (format!("the window of rule {} is too short to gain", rule(narrowest)), "a longer period"),
    };
    if turn < MIN_TURN {
        return exact(format!("{cause}: its turn is {turn}, below {MIN_TURN}"));
    }
    if turn < GAINS_FROM {
        let message = format!("{cause} much: its turn is {turn}, below {GAINS_FROM}");
        return Some(Warning { message, remedy: format!("use {remedy}, or `speed: exact`") });
    }
    (prepaid.turn < GAINS_FROM).then(|| Warning {
        message: format!("turns of {} gain little: a busy key calls the store in each", prepaid.turn),
        remedy: format!("use {GAINS_FROM} or more"),
    })
}

/// Turns below this make so many calls that prepaid permits gain little.
const GAINS_FROM: Span = Span::from_millis(5);
