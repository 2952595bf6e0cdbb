//! Which policies a question falls under, before the store is asked.

use std::{borrow::Cow, ops::Deref, sync::Arc};

use smallvec::SmallVec;
use tollgate_core::{Ask, Decision, Micros, RuleDecision, Store, Verdict};

use super::{Answer, AskError, Asked, Engine, Fate, Question, Subject, SubjectAnswer, Who, adhoc::THROTTLE_DOMAIN};
use crate::{
    rulebook::{Allowed, Found, KEY_ENTRY, Limit, Limited, Rulebook, of_entries},
    telemetry::Denial,
    text::Escaped,
    wiring::StoredPolicy,
};

/// A question on its way to the store.
pub(super) struct Plan<'q> {
    /// What is asked of the store, each key once.
    pub(super) places: SmallVec<[Place<'q>; 2]>,
    /// What is known of each subject so far, and its place.
    subjects: Vec<(SubjectAnswer, Option<usize>)>,
    /// A rule file refuses one of them whatever comes.
    pub(super) refused: bool,
    /// A switch says that nothing is refused.
    watches: bool,
}

/// One key under one policy.
pub(super) struct Place<'q> {
    pub(super) limited: Held<'q>,
    pub(super) key: Cow<'q, str>,
    pub(super) cost: u64,
}

/// A policy of the rulebook, or one that came with the call.
pub(super) enum Held<'q> {
    Book(&'q Limited),
    Shared(Arc<Limited>),
}

impl Deref for Held<'_> {
    type Target = Limited;

    #[inline]
    fn deref(&self) -> &Limited {
        match self {
            Self::Book(limited) => limited,
            Self::Shared(limited) => limited,
        }
    }
}

impl<'q> Plan<'q> {
    #[inline]
    pub(super) fn of(question: &Question<'q>, book: &'q Rulebook, engine: &Engine) -> Result<Self, AskError> {
        let mut plan = Self {
            places: SmallVec::new(),
            subjects: Vec::with_capacity(question.subjects.len()),
            refused: false,
            watches: book.switches().everything_watches,
        };
        if book.switches().everything_off {
            plan.set_aside(question, Fate::SwitchedOff, engine);
            return Ok(plan);
        }
        let mut limits: SmallVec<[Option<&'q Limit>; 2]> = SmallVec::new();
        for subject in question.subjects {
            let found = book.find(question.domain, subject.who).map_err(AskError::Bad)?;
            if let Found::UnknownDomain = found {
                if question.verb == Asked::Reset {
                    return Err(AskError::Bad(unknown_domain(question.domain)));
                }
                engine.report_unknown(question.domain);
                plan.set_aside(question, Fate::UnknownDomain, engine);
                return Ok(plan);
            }
            let limit = match (subject.limit, found) {
                // Nobody is refused then, and there is no rule that could watch.
                (Some(_), _) if book.switches().everything_watches => {
                    engine.let_through(Fate::SwitchedOff);
                    plan.subjects.push((SubjectAnswer::of(Fate::SwitchedOff, subject.cost.unwrap_or(1)), None));
                    None
                }
                (Some(_), _) => {
                    plan.add_requested(question.domain, subject, engine)?;
                    None
                }
                (None, Found::Policy(limited, key)) => {
                    plan.add(Held::Book(limited), key, subject, engine);
                    None
                }
                (None, Found::Limit(limit, key)) => {
                    plan.add_limit(limit, key, subject, engine);
                    Some(limit)
                }
                (None, Found::Unmatched | Found::UnknownDomain) => {
                    engine.let_through(Fate::Unmatched);
                    plan.subjects.push((SubjectAnswer::of(Fate::Unmatched, subject.cost.unwrap_or(1)), None));
                    None
                }
            };
            limits.push(limit);
        }
        plan.replace(&limits);
        Ok(plan)
    }

    pub(super) fn asks(&self) -> SmallVec<[Ask<'_, StoredPolicy>; 2]> {
        let several = self.places.len() > 1;
        let times = |place| if several { self.cost_of(place) } else { 1 };
        self.places.iter().map(|place| Ask::new(&place.limited.stored, &place.key).times(times(place))).collect()
    }

    /// What a take charges it. Where one is refused whatever comes, the others are only looked at, unless they count
    /// refused requests.
    pub(super) fn cost_of(&self, place: &Place<'_>) -> u64 {
        if self.refused && !place.limited.policy.counts_refused() { 0 } else { place.cost }
    }

    /// One fate for all of them.
    fn set_aside(&mut self, question: &Question<'_>, fate: Fate, engine: &Engine) {
        self.places.clear();
        self.subjects.clear();
        for subject in question.subjects {
            engine.let_through(fate);
            self.subjects.push((SubjectAnswer::of(fate, subject.cost.unwrap_or(1)), None));
        }
    }

    #[inline]
    fn add(&mut self, limited: Held<'q>, key: Cow<'q, str>, subject: &Subject<'_>, engine: &Engine) {
        let limited = match limited {
            Held::Book(book) => Held::Book(book.for_key(&key, || engine.now())),
            shared => shared,
        };
        let cost = subject.cost.unwrap_or(limited.cost);
        let mut answer = SubjectAnswer::of(Fate::Decided, cost);
        answer.policy = Some(Arc::clone(&limited.policy));
        answer.key = (*key).into();
        if limited.policy.rules().is_empty() {
            engine.let_through(Fate::SwitchedOff);
            answer.fate = Fate::SwitchedOff;
            self.subjects.push((answer, None));
            return;
        }
        let same = |place: &Place<'_>| Arc::ptr_eq(&place.limited.policy, &limited.policy) && place.key == key;
        let position = match self.places.iter().position(same) {
            // Named twice: it is charged once, for both.
            Some(position) => {
                self.places[position].cost = self.places[position].cost.saturating_add(cost);
                position
            }
            None => {
                self.places.push(Place { limited, key, cost });
                self.places.len() - 1
            }
        };
        self.subjects.push((answer, Some(position)));
    }

    fn add_limit(&mut self, limit: &'q Limit, key: Cow<'q, str>, subject: &Subject<'_>, engine: &Engine) {
        let cost = subject.cost.unwrap_or(1);
        match &limit.allowance {
            Allowed::Everything => {
                engine.let_through(Fate::Unlimited);
                self.subjects.push((SubjectAnswer::of(Fate::Unlimited, cost), None));
            }
            Allowed::Nothing { watches, ban } => {
                let mut answer = self.banned(cost, *watches);
                answer.ban = Some(Arc::clone(ban));
                answer.key = (*key).into();
                self.subjects.push((answer, None));
            }
            Allowed::As(limited) => self.add(Held::Book(limited), key, subject, engine),
        }
        if let Some((answer, _)) = self.subjects.last_mut() {
            answer.quota_mode = limit.quota_mode;
            answer.metadata.clone_from(&limit.metadata);
            answer.written = limit.written;
        }
    }

    /// The answer of a limit of nothing. A look is not over it, as it is not over any unused limit.
    fn banned(&mut self, cost: u64, watches: bool) -> SubjectAnswer {
        let mut answer = SubjectAnswer::of(Fate::RefusedAlways, cost);
        answer.over_limit = cost > 0;
        if cost > 0 && !watches {
            answer.verdict = Verdict::Never;
            self.refused = true;
        }
        answer
    }

    /// Numbers that came with the request: a window of their own for the whole descriptor.
    fn add_requested(&mut self, domain: &str, subject: &Subject<'_>, engine: &Engine) -> Result<(), AskError> {
        let Some(limit) = subject.limit else { return Ok(()) };
        if limit.requests_per_unit == 0 {
            let mut answer = self.banned(subject.cost.unwrap_or(1), false);
            answer.written = Some(limit);
            answer.key = match subject.who {
                Who::Descriptor(entries) => of_entries(entries).into(),
                Who::Key(key) => key.into(),
            };
            self.subjects.push((answer, None));
            return Ok(());
        }
        let limited = engine.requested(domain, limit)?;
        let key = match subject.who {
            Who::Descriptor(entries) => of_entries(entries),
            Who::Key(key) => of_entries(&[(KEY_ENTRY, key)]),
        };
        self.add(Held::Shared(limited), Cow::Owned(key), subject, engine);
        if let Some((answer, _)) = self.subjects.last_mut() {
            answer.written = Some(limit);
        }
        Ok(())
    }

    /// Limits that another limit of the same request stands in for take no part.
    fn replace(&mut self, limits: &[Option<&Limit>]) {
        let replaced: Vec<&str> =
            limits.iter().flatten().flat_map(|limit| limit.replaces.iter().map(|name| &**name)).collect();
        if replaced.is_empty() {
            return;
        }
        let mut keep = vec![false; self.places.len()];
        for ((answer, place), limit) in self.subjects.iter_mut().zip(limits) {
            let name = limit.and_then(|limit| limit.name.as_deref());
            if name.is_some_and(|name| replaced.contains(&name)) {
                *answer = SubjectAnswer::of(Fate::Replaced, answer.cost);
                *place = None;
            } else if let Some(place) = place {
                keep[*place] = true;
            }
        }
        self.refused = self.subjects.iter().any(|(answer, _)| answer.verdict == Verdict::Never);
        let mut moved = vec![0; keep.len()];
        let mut kept = 0;
        for (place, keep) in keep.iter().enumerate() {
            moved[place] = kept;
            kept += usize::from(*keep);
        }
        let mut index = 0;
        self.places.retain(|_| {
            index += 1;
            keep[index - 1]
        });
        for (_, place) in &mut self.subjects {
            *place = place.map(|place| moved[place]);
        }
    }

    /// The answer, and its numbers into the books.
    #[inline]
    pub(super) fn conclude(self, domain: &str, decision: Option<Decision>, counts: bool, engine: &Engine) -> Answer {
        let mut starts: SmallVec<[usize; 2]> = SmallVec::new();
        let mut start = 0;
        for place in &self.places {
            starts.push(start);
            start += place.limited.policy.rules().len();
        }
        let in_place: SmallVec<[Option<usize>; 2]> = self.subjects.iter().map(|(_, place)| *place).collect();
        let subjects = self.subjects.into_iter().map(|(mut answer, place)| {
            if counts && answer.fate == Fate::RefusedAlways && answer.over_limit {
                let policy = answer.ban.as_ref().map_or("", |ban| &ban.policy);
                let denial = if answer.is_watched() { Denial::Shadow } else { Denial::Banned };
                engine.telemetry().top_denied.note(denial, domain, policy, &answer.key);
                engine.telemetry().refused_always(domain, answer.ban.as_deref(), answer.is_watched());
            }
            if let (Some(place), Some(decision)) = (place, &decision) {
                let (start, len) = (starts[place], self.places[place].limited.policy.rules().len());
                let rules = rules_at(decision, start, len);
                answer.rules = start..start + rules.len();
                answer.verdict = own_verdict(rules, decision);
                answer.over_limit = rules.iter().any(|rule| !rule.is_allowed());
            }
            answer
        });
        let mut answer = Answer { subjects: subjects.collect(), decision };
        let quotas_refuse = counts && !self.watches && answer.refuse_over_all_quotas(|| engine.now());
        if let (Some(decision), true) = (&answer.decision, counts) {
            for (index, (place, start)) in self.places.iter().zip(&starts).enumerate() {
                let rules = rules_at(decision, *start, place.limited.policy.rules().len());
                let mut verdict = own_verdict(rules, decision);
                let quota = |(subject, at): (&SubjectAnswer, &Option<usize>)| subject.quota_mode && *at == Some(index);
                if quotas_refuse && answer.subjects.iter().zip(&in_place).any(quota) {
                    verdict = decision.verdict;
                }
                place.limited.meters.count(rules, decision, verdict);
                if let Some(denial) = denial(rules, verdict) {
                    let policy = &place.limited.policy;
                    engine.telemetry().top_denied.note(denial, policy.domain(), policy.name(), &place.key);
                }
            }
        }
        answer
    }
}

/// Why nothing is reset in a domain that no rule file is about.
fn unknown_domain(domain: &str) -> String {
    if domain == THROTTLE_DOMAIN {
        return "limits that come with calls are reset on the RESP port, by DEL key".to_owned();
    }
    let shown = Escaped(domain).first(SHOWN_CHARS);
    format!("no rule file is about the domain \"{shown}\", so nothing was reset; name the one of your rule file")
}

/// So much of a name is shown.
const SHOWN_CHARS: usize = 80;

/// A reload may have given a policy more or fewer rules since it was looked up; then there is nothing to tell apart.
fn rules_at(decision: &Decision, start: usize, len: usize) -> &[RuleDecision] {
    decision.rules.get(start..start + len).unwrap_or_default()
}

/// Which list of denials a request belongs on, if any.
fn denial(rules: &[RuleDecision], verdict: Verdict) -> Option<Denial> {
    match verdict {
        Verdict::Allow { .. } => rules.iter().any(|rule| rule.shadow && !rule.is_allowed()).then_some(Denial::Shadow),
        Verdict::Deny { .. } | Verdict::Never => Some(Denial::Refused),
    }
}

/// What these rules alone say.
#[inline]
fn own_verdict(rules: &[RuleDecision], decision: &Decision) -> Verdict {
    let mut worst: Option<Micros> = None;
    for rule in rules.iter().filter(|rule| !rule.shadow) {
        match rule.verdict {
            Verdict::Never => return Verdict::Never,
            Verdict::Deny { retry_after } => worst = Some(worst.map_or(retry_after, |worst| worst.max(retry_after))),
            Verdict::Allow { .. } => {}
        }
    }
    match (worst, decision.decided_by) {
        (Some(retry_after), _) => Verdict::Deny { retry_after },
        // A blocked key is refused by no rule of its own.
        (None, tollgate_core::DecidedBy::Block) => decision.verdict,
        (None, _) => Verdict::Allow { wait: decision.wait() },
    }
}

impl Engine {
    fn now(&self) -> Micros {
        self.inner.store.now()
    }
}
