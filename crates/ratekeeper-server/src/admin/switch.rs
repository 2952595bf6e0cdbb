//! `/api/switches`: turns rules off or sets them to shadow mode, all of them or one policy or rule.

use serde::{Deserialize, Serialize};

use super::json;
use crate::{
    engine::Engine,
    http::{HttpResponse, Problem},
    request::RequestError,
    rulebook::{Rulebook, SwitchTarget, Switches},
};

/// The body of `POST /api/switches`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchRequest {
    set: SwitchAction,
    #[serde(default)]
    domain: Option<String>,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    rule: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
enum SwitchAction {
    /// The rule is not evaluated.
    Off,
    /// The rule is evaluated again.
    On,
    /// The rule is evaluated and counted, never enforced.
    Shadow,
    /// The rule is enforced, even if its file sets `shadow`.
    Enforce,
}

/// The switches that are set, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct SwitchesView {
    everything_off: bool,
    everything_shadow: bool,
    off: Vec<TargetView>,
    shadow: Vec<TargetView>,
    enforce: Vec<TargetView>,
}

#[derive(Debug, Serialize)]
struct TargetView {
    domain: String,
    policy: String,
    rule: Option<String>,
}

pub(super) fn view(engine: &Engine) -> SwitchesView {
    view_of(engine.rulebook().switches())
}

fn view_of(switches: &Switches) -> SwitchesView {
    let named = |target: &SwitchTarget| TargetView {
        domain: target.domain.clone(),
        policy: target.policy.clone(),
        rule: target.rule.clone(),
    };
    SwitchesView {
        everything_off: switches.everything_off,
        everything_shadow: switches.everything_shadow,
        off: switches.off.iter().map(named).collect(),
        shadow: switches.shadow.iter().map(named).collect(),
        enforce: switches.enforce.iter().map(named).collect(),
    }
}

pub(super) fn change(engine: &Engine, bytes: &[u8]) -> Result<HttpResponse, Problem> {
    let request: SwitchRequest = serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad_request(format!("{error}; send JSON such as {{\"set\":\"off\"}}")))?;
    let target = request.target(&engine.rulebook())?;
    let changed = engine.switch(|switches| match (&target, request.set) {
        (None, SwitchAction::Off) => switches.everything_off = true,
        (None, SwitchAction::On) => switches.everything_off = false,
        (None, SwitchAction::Shadow) => switches.everything_shadow = true,
        (None, SwitchAction::Enforce) => switches.everything_shadow = false,
        (Some(target), SwitchAction::Off) => _ = switches.off.insert(target.clone()),
        (Some(target), SwitchAction::On) => _ = switches.off.remove(target),
        (Some(target), SwitchAction::Shadow) => switches.set_shadow(target, engine.rulebook().shadow_in_file(target)),
        (Some(target), SwitchAction::Enforce) => switches.set_enforce(target, engine.rulebook().shadow_in_file(target)),
    });
    let switches = changed.map_err(|error| Problem::from(RequestError::from(error)))?;
    let (set, target) = (request.set.name(), request.shown());
    tracing::warn!(set, target, "a switch was set");
    Ok(json(&view_of(&switches)))
}

impl SwitchAction {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Shadow => "shadow",
            Self::Enforce => "enforce",
        }
    }
}

impl SwitchRequest {
    /// The target's name, for the log.
    fn shown(&self) -> String {
        let named: Vec<&str> =
            [&self.domain, &self.policy, &self.rule].into_iter().flatten().map(String::as_str).collect();
        if named.is_empty() { "everything".to_owned() } else { named.join("/") }
    }

    /// The target, `None` for everything. A target that does not exist is an error, because a switch for a misspelt
    /// rule would have no effect.
    fn target(&self, book: &Rulebook) -> Result<Option<SwitchTarget>, Problem> {
        let (domain, policy) = match (&self.domain, &self.policy, &self.rule) {
            (None, None, None) => return Ok(None),
            (Some(domain), Some(policy), _) => (domain, policy),
            _ => {
                return Err(Problem::bad_request("name the domain and the policy, or none of them to mean everything"));
            }
        };
        let target = SwitchTarget { domain: domain.clone(), policy: policy.clone(), rule: self.rule.clone() };
        let switches = book.switches();
        // A switch can be set back after its policy or rule has been removed.
        let is_set_back = match self.set {
            SwitchAction::On => switches.off.contains(&target),
            SwitchAction::Enforce => switches.shadow.contains(&target),
            SwitchAction::Shadow => switches.enforce.contains(&target),
            SwitchAction::Off => false,
        };
        if is_set_back {
            return Ok(Some(target));
        }
        let known = book.policies().into_iter().find(|known| known.domain() == domain && known.name() == policy);
        let Some(known) = known else {
            return Err(Problem::bad_request(format!("there is no policy \"{policy}\" in the domain \"{domain}\"")));
        };
        // A policy does not list rules that are off.
        let rule_is_known = self.rule.as_ref().is_none_or(|rule| known.position(rule).is_some());
        let whole = SwitchTarget { rule: None, ..target.clone() };
        if !rule_is_known && !switches.off.contains(&target) && !switches.off.contains(&whole) {
            let names: Vec<&str> = known.rules().iter().map(|rule| rule.name()).collect();
            let names = names.join(", ");
            return Err(Problem::bad_request(format!("the policy \"{policy}\" has no such rule; it has {names}")));
        }
        Ok(Some(target))
    }
}
