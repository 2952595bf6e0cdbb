//! Switches: everything or one rule, off or watching.

use serde::{Deserialize, Serialize};

use super::json;
use crate::{
    engine::{AskError, Engine},
    http::{Problem, Reply},
    rulebook::{Rulebook, Switches, Target},
};

/// What `POST /api/switches` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    turn: How,
    #[serde(default)]
    domain: Option<String>,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    rule: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
enum How {
    /// Takes no part.
    Off,
    /// Takes part again.
    On,
    /// Decides and counts, and refuses nobody.
    Watch,
    /// Refuses, also where its file says `shadow`.
    Enforce,
}

/// What is switched, as it is told.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    everything_off: bool,
    everything_watches: bool,
    off: Vec<Named>,
    watching: Vec<Named>,
    enforcing: Vec<Named>,
}

#[derive(Debug, Serialize)]
struct Named {
    domain: String,
    policy: String,
    rule: Option<String>,
}

pub(super) fn told(engine: &Engine) -> Told {
    of(engine.rulebook().switches())
}

fn of(switches: &Switches) -> Told {
    let named = |target: &Target| Named {
        domain: target.domain.clone(),
        policy: target.policy.clone(),
        rule: target.rule.clone(),
    };
    Told {
        everything_off: switches.everything_off,
        everything_watches: switches.everything_watches,
        off: switches.off.iter().map(named).collect(),
        watching: switches.watching.iter().map(named).collect(),
        enforcing: switches.enforcing.iter().map(named).collect(),
    }
}

pub(super) fn turn(engine: &Engine, bytes: &[u8]) -> Result<Reply, Problem> {
    let wanted: Turn = serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad_request(format!("{error}; send JSON such as {{\"turn\":\"off\"}}")))?;
    let target = wanted.target(&engine.rulebook())?;
    let turned = engine.switch(|switches| match (&target, wanted.turn) {
        (None, How::Off) => switches.everything_off = true,
        (None, How::On) => switches.everything_off = false,
        (None, How::Watch) => switches.everything_watches = true,
        (None, How::Enforce) => switches.everything_watches = false,
        (Some(target), How::Off) => _ = switches.off.insert(target.clone()),
        (Some(target), How::On) => _ = switches.off.remove(target),
        (Some(target), How::Watch) => switches.watch(target, engine.rulebook().watches_in_file(target)),
        (Some(target), How::Enforce) => switches.enforce(target, engine.rulebook().watches_in_file(target)),
    });
    let switches = turned.map_err(|error| Problem::from(AskError::from(error)))?;
    let (turn, target) = (wanted.turn.name(), wanted.shown());
    tracing::warn!(turn, target, "a switch was turned");
    Ok(json(&of(&switches)))
}

impl How {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Watch => "watch",
            Self::Enforce => "enforce",
        }
    }
}

impl Turn {
    /// What was named, for the log.
    fn shown(&self) -> String {
        let named: Vec<&str> =
            [&self.domain, &self.policy, &self.rule].into_iter().flatten().map(String::as_str).collect();
        if named.is_empty() { "everything".to_owned() } else { named.join("/") }
    }

    /// What is meant, if it is there: a switch for a misspelt rule would do nothing, on the worst day to do nothing.
    fn target(&self, book: &Rulebook) -> Result<Option<Target>, Problem> {
        let (domain, policy) = match (&self.domain, &self.policy, &self.rule) {
            (None, None, None) => return Ok(None),
            (Some(domain), Some(policy), _) => (domain, policy),
            _ => {
                return Err(Problem::bad_request("name the domain and the policy, or none of them to mean everything"));
            }
        };
        let target = Target { domain: domain.clone(), policy: policy.clone(), rule: self.rule.clone() };
        let switches = book.switches();
        // What was turned can be turned back, also when its policy or its rule has gone since.
        let is_turned_back = match self.turn {
            How::On => switches.off.contains(&target),
            How::Enforce => switches.watching.contains(&target),
            How::Watch => switches.enforcing.contains(&target),
            How::Off => false,
        };
        if is_turned_back {
            return Ok(Some(target));
        }
        let known = book.policies().into_iter().find(|known| known.domain() == domain && known.name() == policy);
        let Some(known) = known else {
            return Err(Problem::bad_request(format!("there is no policy \"{policy}\" in the domain \"{domain}\"")));
        };
        // A rule that is off is not among a policy's rules any more.
        let rule_is_known = self.rule.as_ref().is_none_or(|rule| known.position(rule).is_some());
        let whole = Target { rule: None, ..target.clone() };
        if !rule_is_known && !switches.off.contains(&target) && !switches.off.contains(&whole) {
            let names: Vec<&str> = known.rules().iter().map(|rule| rule.name()).collect();
            let names = names.join(", ");
            return Err(Problem::bad_request(format!("the policy \"{policy}\" has no such rule; it has {names}")));
        }
        Ok(Some(target))
    }
}
