//! Policies: rules that are decided together. All of them admit and are charged, or none is.

use std::sync::Arc;

use crate::{
    algorithm::{Algorithm, AnyAlgorithm, State},
    bounds::{MAX_RULES, MAX_WAIT},
    effect::Effect,
    error::PolicyError,
    rule::{Rule, check_name},
    speed::Speed,
    time::{Span, Timestamp},
};

/// A validated list of rules with a name.
#[derive(Clone, Debug)]
pub struct Policy {
    domain: Arc<str>,
    name: Arc<str>,
    rules: Vec<ReadyRule>,
    horizon: Span,
    effect: Effect,
    speed: Speed,
}

/// A validated rule with its compiled algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyRule {
    rule: Rule,
    algorithm: AnyAlgorithm,
}

/// The stored state of one key under all rules of a policy.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KeyState {
    /// Time of the latest reservation.
    pub promised: Timestamp,
    /// The block on the key, if any.
    pub block: Block,
    /// One state per rule, in the policy's order.
    pub states: Vec<State>,
}

/// A period during which every request of a key is denied.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Block {
    /// When it was set, to detect a clock that has stepped back.
    pub since: Timestamp,
    /// When it ends.
    pub until: Timestamp,
}

impl Policy {
    /// Validates the rules. Disabled rules are validated too, and then left out.
    pub fn new(name: impl AsRef<str>, rules: impl IntoIterator<Item = Rule>) -> Result<Self, PolicyError> {
        let name = name.as_ref();
        check_name("name", name).map_err(PolicyError::Name)?;
        let policy = || name.to_owned();
        let mut ready: Vec<ReadyRule> = Vec::new();
        let mut seen: Vec<String> = Vec::new();
        for (index, rule) in rules.into_iter().enumerate() {
            let algorithm = rule.compile().map_err(|error| PolicyError::Rule {
                policy: policy(),
                index,
                error: Box::new(error),
            })?;
            if seen.iter().any(|name| name == rule.name()) {
                return Err(PolicyError::DuplicateRule { policy: policy(), index, rule: rule.name().to_owned() });
            }
            seen.push(rule.name().to_owned());
            if rule.is_enabled() {
                ready.push(ReadyRule { rule, algorithm });
            }
        }
        if seen.is_empty() {
            return Err(PolicyError::NoRules { policy: policy() });
        }
        if seen.len() > MAX_RULES {
            return Err(PolicyError::TooManyRules { policy: policy(), found: seen.len(), max: MAX_RULES });
        }
        let horizon = ready.iter().map(|rule| rule.algorithm.horizon()).fold(MAX_WAIT, Span::min);
        Ok(Self { rules: ready, horizon, ..Self::without_rules(name, Effect::Limit) })
    }

    fn without_rules(name: &str, effect: Effect) -> Self {
        let (domain, name) = ("".into(), name.into());
        Self { domain, name, rules: Vec::new(), horizon: MAX_WAIT, effect, speed: Speed::Exact }
    }

    /// The domain and settings of another policy.
    fn with_settings_of(mut self, other: &Self) -> Self {
        (self.domain, self.speed) = (Arc::clone(&other.domain), other.speed);
        self
    }

    /// What the policy does with its requests.
    #[inline]
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Puts the policy into a domain. Keys of different domains are separate.
    pub fn in_domain(mut self, domain: impl AsRef<str>) -> Result<Self, PolicyError> {
        check_name("domain", domain.as_ref()).map_err(PolicyError::Name)?;
        self.domain = domain.as_ref().into();
        Ok(self)
    }

    /// Sets how decisions about a shared limit are made.
    #[must_use]
    pub fn with_speed(mut self, speed: Speed) -> Self {
        self.speed = speed;
        self
    }

    /// How decisions about a shared limit are made.
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// The domain, empty if none was given.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The policy's name, unique in its domain.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The enabled rules, in order.
    pub fn rules(&self) -> &[ReadyRule] {
        &self.rules
    }

    /// The position of a rule.
    pub fn position(&self, rule: &str) -> Option<usize> {
        self.rules.iter().position(|ready| ready.name() == rule)
    }

    /// The longest wait that can be reserved.
    pub fn horizon(&self) -> Span {
        self.horizon
    }

    /// The same policy with one rule replaced, or added if its name is new.
    pub fn with_rule(&self, rule: Rule) -> Result<Self, PolicyError> {
        let mut rules: Vec<Rule> = self.rules.iter().map(|ready| ready.rule.clone()).collect();
        match rules.iter_mut().find(|old| old.name() == rule.name()) {
            Some(old) => *old = rule,
            None => rules.push(rule),
        }
        self.with_rules(rules)
    }

    /// Whether any rule is a concurrency rule.
    pub fn has_leases(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.algorithm, AnyAlgorithm::Leases(_)))
    }

    /// Whether any rule charges refused requests.
    pub fn counts_refused(&self) -> bool {
        self.rules.iter().any(ReadyRule::counts_refused)
    }

    /// Whether denials of its rules lead to a block.
    pub fn has_auto_block(&self) -> bool {
        self.rules.iter().any(ReadyRule::is_auto_block)
    }

    /// Whether a refused take may change the state of a key.
    pub fn changes_on_refusal(&self) -> bool {
        self.rules.iter().any(ReadyRule::changes_on_refusal)
    }

    /// The initial state of a key.
    pub fn fresh(&self) -> KeyState {
        KeyState { states: vec![State::default(); self.rules.len()], ..KeyState::default() }
    }

    /// When a key is back to its initial state; `now` or earlier if it is already.
    pub fn reset_at(&self, key_state: &KeyState, now: Timestamp) -> Timestamp {
        let looks =
            self.rules.iter().zip(&key_state.states).map(|(rule, state)| rule.algorithm.look(state, now).reset_at);
        looks.fold(key_state.block.until.max(key_state.promised), Timestamp::max)
    }
}

/// Policies without rules
impl Policy {
    /// A policy that refuses every request.
    pub fn deny_all(name: impl AsRef<str>) -> Result<Self, PolicyError> {
        Self::with_effect(name, Effect::Deny)
    }

    /// A policy that admits every request and counts none.
    pub fn unlimited(name: impl AsRef<str>) -> Result<Self, PolicyError> {
        Self::with_effect(name, Effect::Unlimited)
    }

    /// A policy without rules and with this effect. [`Effect::Limit`] without rules admits every request.
    pub fn with_effect(name: impl AsRef<str>, effect: Effect) -> Result<Self, PolicyError> {
        check_name("name", name.as_ref()).map_err(PolicyError::Name)?;
        Ok(Self::without_rules(name.as_ref(), effect))
    }

    /// The same policy with another name, in the same domain.
    pub fn renamed(&self, name: &str) -> Result<Self, PolicyError> {
        check_name("name", name).map_err(PolicyError::Name)?;
        let mut renamed = self.clone();
        renamed.name = name.into();
        Ok(renamed)
    }

    /// The same policy with other rules. Without rules, the policy keeps its name and settings and limits nothing.
    pub fn with_rules(&self, rules: impl IntoIterator<Item = Rule>) -> Result<Self, PolicyError> {
        let mut rules = rules.into_iter().peekable();
        let bare = match rules.peek() {
            Some(_) => Self::new(self.name(), rules)?,
            None => Self::without_rules(self.name(), Effect::Limit),
        };
        Ok(bare.with_settings_of(self))
    }

    /// Whether both decide alike: the same rules, effect and settings. Names may differ.
    pub fn decides_like(&self, other: &Self) -> bool {
        self.rules() == other.rules() && self.speed == other.speed && self.effect() == other.effect()
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

    /// The compiled algorithm.
    #[inline]
    pub fn algorithm(&self) -> &AnyAlgorithm {
        &self.algorithm
    }

    /// Whether it is evaluated but not enforced.
    #[inline]
    pub fn is_shadow(&self) -> bool {
        self.rule.is_shadow()
    }

    /// Whether refused requests are charged as well.
    #[inline]
    pub fn counts_refused(&self) -> bool {
        self.rule.counts_refused()
    }

    /// Whether it blocks keys after denials, instead of limiting them.
    #[inline]
    pub fn is_auto_block(&self) -> bool {
        matches!(self.algorithm, AnyAlgorithm::AutoBlock(_))
    }

    /// Whether a refused take may change its state.
    #[inline]
    pub fn changes_on_refusal(&self) -> bool {
        self.counts_refused() || self.is_auto_block()
    }
}
