//! Commands on limits from rule files: `RK.CHECK`, `RK.REFUND`, `RK.RESET`.
//!
//! The reply has the field names of the HTTP response: a map in RESP 3, alternating names and values in RESP 2. If no
//! rule limits a key, `limit` and `remaining` are null and `source` has the reason.

use ratekeeper_core::{DecidedBy, Span, Take, Verb, Verdict};

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

pub(super) fn check(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> MaybePending {
    const USAGE: &str = "RK.CHECK domain key [COST n] [WAIT ms]";
    let Options { cost, max_wait } = Options::of(command, USAGE, true)?;
    ask(session, command, USAGE, LimitRequest { cost, verb: Verb::Take(Take::up_to(max_wait)) }, replies)
}

pub(super) fn refund(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> MaybePending {
    const USAGE: &str = "RK.REFUND domain key [COST n]";
    let Options { cost, .. } = Options::of(command, USAGE, false)?;
    ask(session, command, USAGE, LimitRequest { cost, verb: Verb::Refund { at: None } }, replies)
}

pub(super) fn reset(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> MaybePending {
    const USAGE: &str = "RK.RESET domain key";
    if command.arguments() != 2 {
        return Err(CommandError::usage(USAGE));
    }
    ask(session, command, USAGE, LimitRequest { cost: None, verb: Verb::Reset }, replies)
}

/// Options after domain and key, in any order, each at most once.
#[derive(Default)]
struct Options {
    cost: Option<u64>,
    max_wait: Span,
}

impl Options {
    fn of(command: Command<'_>, usage: &'static str, may_wait: bool) -> Result<Self, CommandError> {
        let (mut options, mut waits) = (Self::default(), false);
        let mut index = 2;
        while let Some(word) = command.argument(index) {
            let value = command.argument(index + 1).ok_or_else(|| CommandError::syntax(word, usage))?;
            if word.eq_ignore_ascii_case(b"COST") && options.cost.is_none() {
                options.cost = Some(numbers::whole("COST", value)?);
            } else if word.eq_ignore_ascii_case(b"WAIT") && may_wait && !waits {
                options.max_wait = numbers::wait("WAIT", value)?;
                waits = true;
            } else {
                return Err(CommandError::syntax(word, usage));
            }
            index += 2;
        }
        Ok(options)
    }
}

fn ask(
    session: &Session,
    command: Command<'_>,
    usage: &str,
    terms: LimitRequest,
    replies: &mut Replies,
) -> MaybePending {
    let (Some(domain), Some(key)) = (command.argument(0), command.argument(1)) else {
        return Err(CommandError::usage(usage));
    };
    let (domain, key) = (numbers::text("the domain", domain)?, numbers::text("the key", key)?);
    session.admit_to(domain)?;
    let subjects = [terms.subject(key)];
    let request = terms.request(domain, &subjects);
    match session.engine.now(|| session.engine.decide(&request)) {
        Some(answered) => {
            terms.write_reply(replies, &answered.map_err(CommandError::because)?)?;
            Ok(None)
        }
        None => {
            // Not while an earlier command of this connection waits, which may be about the same key.
            let here = if session.is_first_in_line { session.engine.decide_here(&request) } else { None };
            let Some(answer) = here else { return Ok(Some(Pending::limits(session, domain, key, terms))) };
            terms.write_reply(replies, &answer)?;
            Ok(None)
        }
    }
}

impl LimitRequest {
    pub(super) fn subject<'a>(&self, key: &'a str) -> Subject<'a> {
        Subject { cost: self.cost, ..Subject::key(key) }
    }

    pub(super) fn request<'a>(&self, domain: &'a str, subjects: &'a [Subject<'a>]) -> Request<'a> {
        Request { domain, subjects, verb: self.verb }
    }

    /// Writes the reply. `RK.RESET` is an error if no enabled policy counts the key, since nothing was reset.
    pub(super) fn write_reply(&self, replies: &mut Replies, answer: &Answer) -> Result<(), CommandError> {
        match (self.verb, answer.subjects.first().map(|subject| subject.resolution)) {
            (Verb::Reset, Some(Resolution::Unmatched)) => {
                Err(CommandError::because("no policy of this domain counts the key; nothing was reset"))
            }
            (Verb::Reset, Some(Resolution::SwitchedOff)) => {
                Err(CommandError::because("the limit is switched off; nothing was reset"))
            }
            (Verb::Reset, _) => {
                replies.status("OK");
                Ok(())
            }
            _ => {
                write_answer(replies, answer);
                Ok(())
            }
        }
    }
}

/// Writes the fields of an answer.
fn write_answer(replies: &mut Replies, answer: &Answer) {
    let verdict = answer.verdict();
    let wait = if let Verdict::Allow { wait } = verdict { wait } else { Span::ZERO };
    let decision = answer.decision.as_ref();
    let lease = decision.and_then(|decision| decision.lease);
    replies.map(8 + usize::from(lease.is_some()));
    field(replies, "verdict", |replies| replies.bulk(verdict.name()));
    field(replies, "wait_us", |replies| number(replies, Some(wait.as_micros())));
    field(replies, "retry_after_us", |replies| {
        number(replies, verdict.retry_after_span().map(|span| span.as_micros()));
    });
    field(replies, "remaining", |replies| number(replies, decision.map(|decision| decision.remaining())));
    field(replies, "limit", |replies| number(replies, decision.map(|decision| decision.limit())));
    let reset_after = decision.map_or(0, |decision| decision.reset_after_span().as_micros());
    field(replies, "reset_after_us", |replies| number(replies, Some(reset_after)));
    let decided_by = decision.and_then(|decision| match decision.decided_by {
        DecidedBy::Rule(position) => answer.rule_name(position),
        DecidedBy::Block => Some("block"),
        DecidedBy::Nothing => None,
    });
    field(replies, "decided_by", |replies| word(replies, decided_by));
    field(replies, "source", |replies| replies.bulk(answer.source()));
    if let Some(lease) = lease {
        field(replies, "lease", |replies| number(replies, Some(lease.0)));
    }
}

fn field(replies: &mut Replies, name: &str, value: impl FnOnce(&mut Replies)) {
    replies.bulk(name);
    value(replies);
}

fn number(replies: &mut Replies, number: Option<u64>) {
    match number {
        Some(number) => replies.integer(i64::try_from(number).unwrap_or(i64::MAX)),
        None => replies.null(),
    }
}

fn word(replies: &mut Replies, word: Option<&str>) {
    match word {
        Some(word) => replies.bulk(word),
        None => replies.null(),
    }
}
