//! Rules decided together: all of them pass and all are charged, or none is.

use std::sync::Arc;

use crate::{
    algorithm::{Algorithm, Limiting, State},
    bounds::{MAX_RULES, MAX_WAIT},
    error::PolicyError,
    rule::{Rule, check_name},
    time::Micros,
};

/// A checked list of rules with a name, ready to decide.
#[derive(Clone, Debug)]
pub struct Policy {
    domain: Arc<str>,
    name: Arc<str>,
    rules: Vec<ReadyRule>,
    horizon: Micros,
}

/// A rule with its numbers worked out.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyRule {
    rule: Rule,
    limiting: Limiting,
}

/// What is remembered of one key under all rules of a policy.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Subject {
    /// The latest moment somebody was told to wait for.
    pub promised: Micros,
    /// Whether everything is refused for a while.
    pub block: Block,
    /// One state per rule, in the policy's order.
    pub states: Vec<State>,
}

/// A stretch of time during which a key is refused everything.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Block {
    /// When it was put up, to notice a clock that has stepped back.
    pub since: Micros,
    /// When it ends.
    pub until: Micros,
}

impl Policy {
    /// Checks the rules. Those that are not enabled are checked too, and then left out.
    pub fn new(name: impl AsRef<str>, rules: impl IntoIterator<Item = Rule>) -> Result<Self, PolicyError> {
        let name = name.as_ref();
        check_name("name", name).map_err(PolicyError::Name)?;
        let policy = || name.to_owned();
        let mut ready: Vec<ReadyRule> = Vec::new();
        let mut seen: Vec<String> = Vec::new();
        for (index, rule) in rules.into_iter().enumerate() {
            let limiting = rule.limiting().map_err(|error| PolicyError::Rule {
                policy: policy(),
                index,
                error: Box::new(error),
            })?;
            if seen.iter().any(|name| name == rule.name()) {
                return Err(PolicyError::DuplicateRule { policy: policy(), index, rule: rule.name().to_owned() });
            }
            seen.push(rule.name().to_owned());
            if rule.is_enabled() {
                ready.push(ReadyRule { rule, limiting });
            }
        }
        if seen.is_empty() {
            return Err(PolicyError::NoRules { policy: policy() });
        }
        if seen.len() > MAX_RULES {
            return Err(PolicyError::TooManyRules { policy: policy(), found: seen.len(), max: MAX_RULES });
        }
        let horizon = ready.iter().map(|rule| rule.limiting.horizon()).fold(MAX_WAIT, Micros::min);
        Ok(Self { domain: "".into(), name: name.into(), rules: ready, horizon })
    }

    /// Puts the policy into a domain; keys of different domains never meet.
    pub fn in_domain(mut self, domain: impl AsRef<str>) -> Result<Self, PolicyError> {
        check_name("domain", domain.as_ref()).map_err(PolicyError::Name)?;
        self.domain = domain.as_ref().into();
        Ok(self)
    }

    /// The domain, empty if none was given.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The policy's name, unique in its domain.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The rules that take part, in order.
    pub fn rules(&self) -> &[ReadyRule] {
        &self.rules
    }

    /// The position of a rule.
    pub fn position(&self, rule: &str) -> Option<usize> {
        self.rules.iter().position(|ready| ready.name() == rule)
    }

    /// The longest wait that may be reserved.
    pub fn horizon(&self) -> Micros {
        self.horizon
    }

    /// The same policy with one rule replaced, or added if its name is new.
    pub fn with_rule(&self, rule: Rule) -> Result<Self, PolicyError> {
        let mut rules: Vec<Rule> = self.rules.iter().map(|ready| ready.rule.clone()).collect();
        match rules.iter_mut().find(|old| old.name() == rule.name()) {
            Some(old) => *old = rule,
            None => rules.push(rule),
        }
        let mut policy = Self::new(&self.name, rules)?;
        policy.domain = Arc::clone(&self.domain);
        Ok(policy)
    }

    /// Whether any rule keeps leases.
    pub fn holds(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.limiting, Limiting::Leases(_)))
    }

    /// Whether any rule charges refused requests.
    pub fn counts_refused(&self) -> bool {
        self.rules.iter().any(ReadyRule::counts_refused)
    }

    /// A key never seen.
    pub fn fresh(&self) -> Subject {
        Subject { states: vec![State::default(); self.rules.len()], ..Subject::default() }
    }

    /// When a key is as good as new; `now` or earlier if it is already.
    pub fn rests_at(&self, subject: &Subject, now: Micros) -> Micros {
        let looks = self.rules.iter().zip(&subject.states).map(|(rule, state)| rule.limiting.look(state, now).rests_at);
        looks.fold(subject.block.until.max(subject.promised), Micros::max)
    }
}

impl ReadyRule {
    /// The rule's name.
    pub fn name(&self) -> &str {
        self.rule.name()
    }

    /// The rule as it was written.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Its algorithm with its numbers.
    #[inline]
    pub fn limiting(&self) -> &Limiting {
        &self.limiting
    }

    /// Whether it only watches.
    #[inline]
    pub fn is_shadow(&self) -> bool {
        self.rule.is_shadow()
    }

    /// Whether refused requests are charged as well.
    #[inline]
    pub fn counts_refused(&self) -> bool {
        self.rule.counts_refused()
    }
}
