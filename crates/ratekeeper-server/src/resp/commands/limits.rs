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

use ratekeeper_core::{LeaseId, Release, Take, Verb, bounds::MAX_WAIT};

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
}

/// A command: its usage, its options, and the request that they make.
pub(super) struct VerbCommand {
    usage: &'static str,
    options: &'static [&'static str],
    request: fn(&Options<'_>, &'static str) -> Result<LimitRequest, CommandError>,
}

pub(super) const CHECK: VerbCommand = VerbCommand {
    usage: "RK.CHECK domain key|ENTRIES n name value … [COST n] [WAIT ms]",
    options: &["COST", "WAIT"],
    request: |options, _| {
        let max_wait = options.get("WAIT").map(|ms| numbers::wait("WAIT", ms)).transpose()?;
        options.with_cost(Verb::Take(Take::up_to(max_wait.unwrap_or_default())))
    },
};

pub(super) const PEEK: VerbCommand = VerbCommand {
    usage: "RK.PEEK domain key|ENTRIES n name value …",
    options: &[],
    request: |_, _| Ok(LimitRequest { cost: None, verb: Verb::Peek }),
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
        Ok(LimitRequest { cost: Some(reserved), verb: Verb::Settle { actual, at: options.at()? } })
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
        Ok(LimitRequest { cost: None, verb: Verb::Block { span } })
    },
};

pub(super) const RESET: VerbCommand = VerbCommand {
    usage: "RK.RESET domain key|ENTRIES n name value …",
    options: &[],
    request: |_, _| Ok(LimitRequest { cost: None, verb: Verb::Reset }),
};

pub(super) const RELEASE: VerbCommand = VerbCommand {
    usage: "RK.RELEASE domain key|ENTRIES n name value … [LEASE id | COST n]",
    options: &["LEASE", "COST"],
    request: |options, usage| match (options.get("LEASE"), options.get("COST")) {
        (Some(_), Some(_)) => Err(CommandError::syntax(b"COST", usage)),
        (Some(lease), None) => {
            let lease = LeaseId(numbers::whole("LEASE", lease)?);
            Ok(LimitRequest { cost: None, verb: Verb::Release(Release::Lease(lease)) })
        }
        (None, _) => options.with_cost(Verb::Release(Release::Oldest)),
    },
};

pub(super) const HEARTBEAT: VerbCommand = VerbCommand {
    usage: "RK.HEARTBEAT domain key|ENTRIES n name value … LEASE id",
    options: &["LEASE"],
    request: |options, usage| {
        let lease = LeaseId(numbers::whole("LEASE", options.required("LEASE", usage)?)?);
        Ok(LimitRequest { cost: None, verb: Verb::Heartbeat(lease) })
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
    match session.engine.now(|| session.engine.decide(&request)) {
        Some(answered) => {
            terms.write_reply(replies, &answered.map_err(CommandError::because)?, &parts)?;
            Ok(None)
        }
        None => {
            // Not while an earlier command of this connection waits, which may be about the same key.
            let here = if session.is_first_in_line { session.engine.decide_here(&request) } else { None };
            let Some(answer) = here else { return Ok(Some(Pending::limits(session, domain, &subjects, terms))) };
            terms.write_reply(replies, &answer, &parts)?;
            Ok(None)
        }
    }
}

impl LimitRequest {
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

impl Options<'_> {
    /// A request at the cost of `COST`.
    fn with_cost(&self, verb: Verb) -> Result<LimitRequest, CommandError> {
        let cost = self.get("COST").map(|cost| numbers::whole("COST", cost)).transpose()?;
        Ok(LimitRequest { cost, verb })
    }
}
