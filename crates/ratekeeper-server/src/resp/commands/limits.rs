//! Commands on limits from rule files: `RK.CHECK` and the other verbs.
//!
//! ```text
//!   RK.<verb> domain key [options]
//!   RK.<verb> domain ENTRIES n name value … [ENTRIES n name value …] [options]
//! ```
//!
//! A key alone belongs to the one policy that counts single values; each `ENTRIES` is a descriptor. A check charges all of
//! them or none. The other verbs are carried out one key after the other.

mod arguments;
mod reply;

use ratekeeper_core::{
    LeaseId, OnExpiry, Release, RequestId, Take, Terms, Verb,
    bounds::{MAX_LIFETIME, MAX_WAIT},
};

use self::arguments::{Arguments, Options};
pub(super) use self::arguments::{OwnedSubjects, Subjects};
use super::{Command, CommandError, MaybePending, Pending, Replies, Session, numbers};
use crate::{
    engine::{Answer, Resolution},
    request::{Request, Subject},
};

/// Cost and verb of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitRequest {
    cost: Option<u64>,
    verb: Verb,
    terms: Terms,
}

/// A command: its usage, its options, and the request that they make.
pub(super) struct VerbCommand {
    usage: &'static str,
    options: &'static [&'static str],
    request: fn(&Options<'_>, &'static str) -> Result<LimitRequest, CommandError>,
}

pub(super) const CHECK: VerbCommand = VerbCommand {
    usage: "RK.CHECK domain key|ENTRIES n name value … [COST n] [WAIT ms] [ID id] [LIFETIME ms] [ATLEAST n]",
    options: &["COST", "WAIT", "ID", "LIFETIME", "ATLEAST"],
    request: |options, usage| options.take(usage),
};

pub(super) const RESERVE: VerbCommand = VerbCommand {
    usage: "RK.RESERVE domain key|ENTRIES n name value … ID id [COST n] [WAIT ms] [LIFETIME ms] [ONEXPIRY keep|refund] \
            [ATLEAST n]",
    options: &["COST", "WAIT", "ID", "LIFETIME", "ONEXPIRY", "ATLEAST"],
    request: |options, usage| {
        options.required("ID", usage)?;
        options.take(usage)
    },
};

pub(super) const COMMIT: VerbCommand = VerbCommand {
    usage: "RK.COMMIT domain key|ENTRIES n name value … ID id ACTUAL n",
    options: &["ID", "ACTUAL"],
    request: |options, usage| {
        let id = request_id(options.required("ID", usage)?)?;
        let actual = numbers::whole("ACTUAL", options.required("ACTUAL", usage)?)?;
        Ok(LimitRequest::about_key(Verb::Commit { id, actual }))
    },
};

pub(super) const CANCEL: VerbCommand = VerbCommand {
    usage: "RK.CANCEL domain key|ENTRIES n name value … ID id",
    options: &["ID"],
    request: |options, usage| {
        Ok(LimitRequest::about_key(Verb::Cancel { id: request_id(options.required("ID", usage)?)? }))
    },
};

pub(super) const PEEK: VerbCommand = VerbCommand {
    usage: "RK.PEEK domain key|ENTRIES n name value …",
    options: &[],
    request: |_, _| Ok(LimitRequest::about_key(Verb::Peek)),
};

pub(super) const REFUND: VerbCommand = VerbCommand {
    usage: "RK.REFUND domain key|ENTRIES n name value … [COST n] [AT us]",
    options: &["COST", "AT"],
    request: |options, _| options.with_cost(Verb::Refund { at: options.at()? }),
};

pub(super) const SETTLE: VerbCommand = VerbCommand {
    usage: "RK.SETTLE domain key|ENTRIES n name value … RESERVED n ACTUAL n [AT us]",
    options: &["RESERVED", "ACTUAL", "AT"],
    request: |options, usage| {
        let reserved = numbers::whole("RESERVED", options.required("RESERVED", usage)?)?;
        let actual = numbers::whole("ACTUAL", options.required("ACTUAL", usage)?)?;
        Ok(LimitRequest { cost: Some(reserved), ..LimitRequest::about_key(Verb::Settle { actual, at: options.at()? }) })
    },
};

pub(super) const PENALIZE: VerbCommand = VerbCommand {
    usage: "RK.PENALIZE domain key|ENTRIES n name value … [COST n]",
    options: &["COST"],
    request: |options, _| options.with_cost(Verb::Penalize),
};

pub(super) const BLOCK: VerbCommand = VerbCommand {
    usage: "RK.BLOCK domain key|ENTRIES n name value … FOR ms",
    options: &["FOR"],
    request: |options, usage| {
        let span = numbers::millis("FOR", options.required("FOR", usage)?, MAX_WAIT)?;
        Ok(LimitRequest::about_key(Verb::Block { span }))
    },
};

pub(super) const RESET: VerbCommand = VerbCommand {
    usage: "RK.RESET domain key|ENTRIES n name value …",
    options: &[],
    request: |_, _| Ok(LimitRequest::about_key(Verb::Reset)),
};

pub(super) const RELEASE: VerbCommand = VerbCommand {
    usage: "RK.RELEASE domain key|ENTRIES n name value … [LEASE id | COST n]",
    options: &["LEASE", "COST"],
    request: |options, usage| match (options.get("LEASE"), options.get("COST")) {
        (Some(_), Some(_)) => Err(CommandError::syntax(b"COST", usage)),
        (Some(lease), None) => {
            let lease = LeaseId(numbers::whole("LEASE", lease)?);
            Ok(LimitRequest::about_key(Verb::Release(Release::Lease(lease))))
        }
        (None, _) => options.with_cost(Verb::Release(Release::Oldest)),
    },
};

pub(super) const HEARTBEAT: VerbCommand = VerbCommand {
    usage: "RK.HEARTBEAT domain key|ENTRIES n name value … LEASE id",
    options: &["LEASE"],
    request: |options, usage| {
        let lease = LeaseId(numbers::whole("LEASE", options.required("LEASE", usage)?)?);
        Ok(LimitRequest::about_key(Verb::Heartbeat(lease)))
    },
};

/// Executes one of the commands above.
pub(super) fn execute(
    session: &Session,
    command: Command<'_>,
    verb: &VerbCommand,
    replies: &mut Replies,
) -> MaybePending {
    let Arguments { domain, subjects, options } = Arguments::of(command, verb.usage, verb.options)?;
    let terms = (verb.request)(&options, verb.usage)?;
    session.admit_to(domain)?;
    let parts = terms.subjects(&subjects);
    let request = terms.request(domain, &parts);
    match session.engine.now(|| session.engine.decide_with(&request, &terms.terms)) {
        Some(answered) => {
            terms.write_reply(replies, &answered.map_err(CommandError::because)?, &parts)?;
            Ok(None)
        }
        None => {
            // Not while an earlier command of this connection waits, which may be about the same key.
            let may_be_here = session.is_first_in_line && terms.terms.is_none();
            let here = if may_be_here { session.engine.decide_here(&request) } else { None };
            let Some(answer) = here else { return Ok(Some(Pending::limits(session, domain, &subjects, terms))) };
            terms.write_reply(replies, &answer, &parts)?;
            Ok(None)
        }
    }
}

impl LimitRequest {
    /// A request at the cost of the policy, without terms.
    const fn about_key(verb: Verb) -> Self {
        Self { cost: None, verb, terms: Terms::NONE }
    }

    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    pub(super) fn new(cost: Option<u64>, verb: Verb) -> Self {
        Self { cost, verb, terms: Terms::NONE }
    }

    pub(super) fn cost(&self) -> Option<u64> {
        self.cost
    }

    /// The subjects of the engine's request.
    pub(super) fn subjects<'a>(&self, subjects: &'a Subjects<'_>) -> Vec<Subject<'a>> {
        let parts = subjects.descriptors();
        parts.map(|descriptor| Subject { descriptor, cost: self.cost, ..Subject::key("") }).collect()
    }

    pub(super) fn request<'a>(&self, domain: &'a str, subjects: &'a [Subject<'a>]) -> Request<'a> {
        Request { domain, subjects, verb: self.verb }
    }

    /// Writes the reply. `RK.RESET` is an error if no enabled policy counts the key, since nothing was reset.
    pub(super) fn write_reply(
        &self,
        replies: &mut Replies,
        answer: &Answer,
        subjects: &[Subject<'_>],
    ) -> Result<(), CommandError> {
        if self.verb != Verb::Reset {
            reply::write(replies, answer, self.verb, subjects);
            return Ok(());
        }
        match answer.subjects.iter().find(|subject| subject.policy.is_none()).map(|subject| subject.resolution) {
            Some(Resolution::Unmatched) => {
                Err(CommandError::because("no policy of this domain counts the key; nothing was reset"))
            }
            _ if answer.subjects.iter().any(|subject| subject.resolution == Resolution::SwitchedOff) => {
                Err(CommandError::because("the limit is switched off; nothing was reset"))
            }
            _ => {
                replies.status("OK");
                Ok(())
            }
        }
    }
}

fn request_id(text: &[u8]) -> Result<RequestId, CommandError> {
    RequestId::new(text).map_err(CommandError::because)
}

impl Options<'_> {
    /// A take with its wait and its terms.
    fn take(&self, usage: &'static str) -> Result<LimitRequest, CommandError> {
        let max_wait = self.get("WAIT").map(|ms| numbers::wait("WAIT", ms)).transpose()?;
        let mut terms = Terms::NONE;
        if let Some(id) = self.get("ID") {
            terms = terms.with_id(request_id(id)?);
        }
        if let Some(lifetime) = self.get("LIFETIME") {
            terms = terms.lifetime(numbers::millis("LIFETIME", lifetime, MAX_LIFETIME)?);
        }
        if let Some(found) = self.get("ONEXPIRY") {
            let ends = [OnExpiry::Keep, OnExpiry::Refund];
            let end = ends.into_iter().find(|end| found.eq_ignore_ascii_case(end.name().as_bytes()));
            terms = terms.on_expiry(end.ok_or_else(|| CommandError::syntax(found, usage))?);
        }
        if let Some(least) = self.get("ATLEAST") {
            terms = terms.at_least(numbers::whole("ATLEAST", least)?);
        }
        if terms.id.is_none() && self.get("LIFETIME").is_some() {
            return Err(CommandError::because(format_args!(
                "LIFETIME is that of an ID, which is missing; write {usage}"
            )));
        }
        let request = self.with_cost(Verb::Take(Take::up_to(max_wait.unwrap_or_default())))?;
        Ok(LimitRequest { terms, ..request })
    }

    /// A request at the cost of `COST`.
    fn with_cost(&self, verb: Verb) -> Result<LimitRequest, CommandError> {
        let cost = self.get("COST").map(|cost| numbers::whole("COST", cost)).transpose()?;
        Ok(LimitRequest { cost, ..LimitRequest::about_key(verb) })
    }
}
