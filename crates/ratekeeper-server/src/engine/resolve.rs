//! Resolution of a request: the policy and key of each subject, before the store call.
//!
//! Subjects that no rule limits are answered here. The others become targets, each pair of policy and key once.

mod replaced;
mod targets;

use ratekeeper_core::{Ask, Verb};
use smallvec::SmallVec;

use self::targets::PolicyRef;
pub(super) use self::targets::Target;
use super::{
    Engine, Resolution, SubjectAnswer,
    inline_limits::{INLINE_DOMAIN, THROTTLE_DOMAIN},
};
use crate::{
    lossy_text::Escaped,
    request::{MAX_TARGETS, Request, RequestError},
    rulebook::{LimitEntry, Match, Rulebook},
    wiring::AnyPolicy,
};

/// A resolved request.
pub(super) struct Resolved<'r> {
    /// Targets of the store call, without duplicates.
    pub(super) targets: SmallVec<[Target<'r>; 2]>,
    /// The preliminary answer of each subject, and the index of its target; `None` if the store is not asked.
    pub(super) subjects: Vec<(SubjectAnswer, Option<usize>)>,
    /// Whether a ban refuses one of the subjects.
    pub(super) refused: bool,
    /// Whether a switch puts all rules into shadow mode.
    pub(super) shadow: bool,
}

impl<'r> Resolved<'r> {
    /// Finds the policy and key of each subject.
    #[inline]
    pub(super) fn new(request: &Request<'r>, book: &'r Rulebook, engine: &Engine) -> Result<Self, RequestError> {
        let mut resolved = Self {
            targets: SmallVec::new(),
            subjects: Vec::with_capacity(request.subjects.len()),
            refused: false,
            shadow: book.switches().everything_shadow,
        };
        if book.switches().everything_off {
            resolved.resolve_all(request, Resolution::SwitchedOff, engine);
            return Ok(resolved);
        }
        let mut limits: SmallVec<[Option<&'r LimitEntry>; 2]> = SmallVec::new();
        for (index, subject) in request.subjects.iter().enumerate() {
            let first = resolved.subjects.len();
            let found = match subject.rules {
                // The rules of the file do not matter, but the domain has to exist.
                Some(_) if request.domain == INLINE_DOMAIN || book.knows(request.domain) => Match::Unmatched,
                Some(_) => Match::UnknownDomain,
                None => book
                    .find(request.domain, subject.descriptor)
                    .map_err(|error| RequestError::Invalid(error.to_string()))?,
            };
            if let Match::UnknownDomain = found {
                if request.verb == Verb::Reset {
                    return Err(RequestError::Invalid(unknown_domain(request.domain)));
                }
                engine.report_unknown(request.domain);
                resolved.resolve_all(request, Resolution::UnknownDomain, engine);
                return Ok(resolved);
            }
            let limit = match (subject.limit, found) {
                // An inline limit has no shadow mode, so the subject is allowed without a decision.
                _ if (subject.limit.is_some() || subject.rules.is_some()) && book.switches().everything_shadow => {
                    engine.let_through(Resolution::SwitchedOff);
                    resolved
                        .subjects
                        .push((SubjectAnswer::of(Resolution::SwitchedOff, subject.cost.unwrap_or(1)), None));
                    None
                }
                _ if subject.rules.is_some() => {
                    resolved.add_inline(request.domain, subject, engine)?;
                    None
                }
                (Some(_), _) => {
                    resolved.add_requested(request.domain, subject, engine)?;
                    None
                }
                (None, Match::Policy(entry, key)) => {
                    resolved.add(PolicyRef::Book(entry), key, subject, engine);
                    None
                }
                (None, Match::Limit(limit, key)) => {
                    resolved.add_limit(limit, key, subject, engine);
                    Some(limit)
                }
                (None, Match::Policies(all)) => {
                    for (entry, key) in all {
                        resolved.add(PolicyRef::Book(entry), key, subject, engine);
                    }
                    None
                }
                (None, Match::UnknownPolicy) => {
                    return Err(RequestError::Invalid(book.unknown_policy(request.domain, subject.descriptor)));
                }
                (None, Match::Unmatched | Match::UnknownDomain) => {
                    engine.let_through(Resolution::Unmatched);
                    resolved.subjects.push((SubjectAnswer::of(Resolution::Unmatched, subject.cost.unwrap_or(1)), None));
                    None
                }
            };
            for (answer, _) in &mut resolved.subjects[first..] {
                answer.subject = index;
            }
            if resolved.targets.len() > MAX_TARGETS {
                return Err(RequestError::invalid(format!(
                    "the request is counted under more than {MAX_TARGETS} keys, which is the most; send fewer descriptors"
                )));
            }
            limits.push(limit);
        }
        resolved.remove_replaced(&limits);
        Ok(resolved)
    }

    /// The arguments of the store call. If a ban refuses the request, a take has cost 0 for the other targets, except
    /// those whose rules count refused requests.
    #[inline]
    pub(super) fn asks(&self, verb: Verb) -> SmallVec<[Ask<'_, AnyPolicy>; 2]> {
        let is_refused = self.refused && matches!(verb, Verb::Take(_));
        let cost = |target: &Target<'_>| {
            if is_refused && !target.entry.policy.counts_refused() { 0 } else { target.cost }
        };
        self.targets.iter().map(|target| Ask::new(&target.entry.stored, &target.key).cost(cost(target))).collect()
    }

    /// Gives all subjects the same resolution and removes all targets.
    fn resolve_all(&mut self, request: &Request<'_>, resolution: Resolution, engine: &Engine) {
        self.targets.clear();
        self.subjects.clear();
        for (index, subject) in request.subjects.iter().enumerate() {
            engine.let_through(resolution);
            let mut answer = SubjectAnswer::of(resolution, subject.cost.unwrap_or(1));
            answer.subject = index;
            self.subjects.push((answer, None));
        }
    }
}

/// The error message of a reset in a domain without a rule file.
fn unknown_domain(domain: &str) -> String {
    if domain == THROTTLE_DOMAIN || domain == INLINE_DOMAIN {
        return "inline limits are reset on the RESP port, by DEL key".to_owned();
    }
    let shown = Escaped(domain).first(SHOWN_CHARS);
    format!("no rule file has the domain \"{shown}\", so nothing was reset; use a domain of the rule files")
}

/// The most characters of a name that an error message shows.
const SHOWN_CHARS: usize = 80;
