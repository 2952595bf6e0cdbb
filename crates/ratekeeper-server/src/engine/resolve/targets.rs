//! Targets of a store call: one key under one policy, with the sum of its costs.
//!
//! A subject becomes a target if a policy or an inline limit decides it. Bans and exemptions are answered here.

use std::{borrow::Cow, ops::Deref, sync::Arc};

use ratekeeper_core::{Effect, Verdict};
use ratekeeper_rules::{key, matching::KEY_ENTRY};

use super::Resolved;
use crate::{
    engine::{Engine, Resolution, SubjectAnswer},
    request::{Descriptor, RequestError, Subject},
    rulebook::{LimitEntry, LimitKind, PolicyEntry},
};

/// One key under one policy.
pub(in crate::engine) struct Target<'r> {
    pub(in crate::engine) entry: PolicyRef<'r>,
    pub(in crate::engine) key: Cow<'r, str>,
    pub(in crate::engine) cost: u64,
}

/// A policy of the rulebook or of an inline limit.
pub(in crate::engine) enum PolicyRef<'r> {
    Book(&'r PolicyEntry),
    Shared(Arc<PolicyEntry>),
}

impl Deref for PolicyRef<'_> {
    type Target = PolicyEntry;

    #[inline]
    fn deref(&self) -> &PolicyEntry {
        match self {
            Self::Book(entry) => entry,
            Self::Shared(entry) => entry,
        }
    }
}

impl<'r> Resolved<'r> {
    /// Adds a policy and key that match. An override of the key replaces the policy's rules.
    #[inline]
    pub(super) fn add(&mut self, entry: PolicyRef<'r>, key: Cow<'r, str>, subject: &Subject<'_>, engine: &Engine) {
        let entry = match entry {
            PolicyRef::Book(book) => PolicyRef::Book(book.for_key(&key, || engine.store_time())),
            shared => shared,
        };
        let cost = subject.cost.unwrap_or(entry.cost);
        if entry.policy.effect() != Effect::Limit {
            return self.add_without_rules(&entry, &key, cost, engine);
        }
        let mut answer = SubjectAnswer::of(Resolution::Decided, cost);
        answer.policy = Some(Arc::clone(&entry.policy));
        answer.key = (*key).into();
        if entry.policy.rules().is_empty() {
            engine.let_through(Resolution::SwitchedOff);
            answer.resolution = Resolution::SwitchedOff;
            self.subjects.push((answer, None));
            return;
        }
        let same = |target: &Target<'_>| Arc::ptr_eq(&target.entry.policy, &entry.policy) && target.key == key;
        let position = match self.targets.iter().position(same) {
            // A key that occurs twice is one target with the sum of the costs.
            Some(position) => {
                self.targets[position].cost = self.targets[position].cost.saturating_add(cost);
                position
            }
            None => {
                self.targets.push(Target { entry, key, cost });
                self.targets.len() - 1
            }
        };
        self.subjects.push((answer, Some(position)));
    }

    /// Adds a policy that denies or exempts every request.
    fn add_without_rules(&mut self, entry: &PolicyEntry, key: &str, cost: u64, engine: &Engine) {
        let mut answer = match entry.policy.effect() {
            Effect::Deny => self.banned(cost, entry.shadow),
            _ => {
                engine.let_through(Resolution::Unlimited);
                SubjectAnswer::of(Resolution::Unlimited, cost)
            }
        };
        answer.policy = Some(Arc::clone(&entry.policy));
        answer.ban.clone_from(&entry.ban);
        answer.key = key.into();
        self.subjects.push((answer, None));
    }

    /// Adds a limit of an Envoy-format rule file.
    pub(super) fn add_limit(
        &mut self,
        limit: &'r LimitEntry,
        key: Cow<'r, str>,
        subject: &Subject<'_>,
        engine: &Engine,
    ) {
        let cost = subject.cost.unwrap_or(1);
        match &limit.kind {
            LimitKind::Unlimited => {
                engine.let_through(Resolution::Unlimited);
                self.subjects.push((SubjectAnswer::of(Resolution::Unlimited, cost), None));
            }
            LimitKind::RefuseAll { shadow, ban } => {
                let mut answer = self.banned(cost, *shadow);
                answer.ban = Some(Arc::clone(ban));
                answer.key = (*key).into();
                self.subjects.push((answer, None));
            }
            LimitKind::Policy(entry) => self.add(PolicyRef::Book(entry), key, subject, engine),
        }
        if let Some((answer, _)) = self.subjects.last_mut() {
            answer.quota_mode = limit.quota_mode;
            answer.metadata.clone_from(&limit.metadata);
            answer.written = limit.written;
        }
    }

    /// The answer of a ban. A cost of 0 takes nothing, so it is not over the limit.
    fn banned(&mut self, cost: u64, shadow: bool) -> SubjectAnswer {
        let mut answer = SubjectAnswer::of(Resolution::RefusedAlways, cost);
        answer.over_limit = cost > 0;
        if cost > 0 && !shadow {
            answer.verdict = Verdict::Never;
            self.refused = true;
        }
        answer
    }

    /// Adds rules of the request.
    pub(super) fn add_inline(
        &mut self,
        domain: &str,
        subject: &Subject<'r>,
        engine: &Engine,
    ) -> Result<(), RequestError> {
        let Some(rules) = &subject.rules else { return Ok(()) };
        let entry = engine.inline_rules(domain, rules)?;
        let key = match subject.descriptor {
            Descriptor::Entries(entries) => Cow::Owned(key::of_entries(entries)),
            Descriptor::Key(key) | Descriptor::Policy { key, .. } => Cow::Borrowed(key),
        };
        self.add(PolicyRef::Shared(entry), key, subject, engine);
        Ok(())
    }

    /// Adds an inline limit of the request: a fixed window with the whole descriptor as its key. A limit of 0 is a ban.
    pub(super) fn add_requested(
        &mut self,
        domain: &str,
        subject: &Subject<'_>,
        engine: &Engine,
    ) -> Result<(), RequestError> {
        let Some(limit) = subject.limit else { return Ok(()) };
        if limit.requests_per_unit == 0 {
            let mut answer = self.banned(subject.cost.unwrap_or(1), false);
            answer.written = Some(limit);
            answer.key = match subject.descriptor {
                Descriptor::Entries(entries) => key::of_entries(entries).into(),
                Descriptor::Key(key) | Descriptor::Policy { key, .. } => key.into(),
            };
            self.subjects.push((answer, None));
            return Ok(());
        }
        let entry = engine.requested(domain, limit)?;
        let key = match subject.descriptor {
            Descriptor::Entries(entries) => key::of_entries(entries),
            Descriptor::Key(key) | Descriptor::Policy { key, .. } => key::of_entries(&[(KEY_ENTRY, key)]),
        };
        self.add(PolicyRef::Shared(entry), Cow::Owned(key), subject, engine);
        if let Some((answer, _)) = self.subjects.last_mut() {
            answer.written = Some(limit);
        }
        Ok(())
    }
}
