//! Limits from rule files: `TG.CHECK`, `TG.REFUND`, `TG.RESET`.
//!
//! The answer has the fields of the HTTP answer under the same names: a map in RESP 3, names and values in turn in RESP 2.
//! Where nobody limits a key, limit and remaining are null and the source tells why.

use tollgate_core::{DecidedBy, Micros, Verdict};

use super::{Begun, Command, Refused, Replies, Session, Waiting, numbers};
use crate::engine::{Answer, Asked, Fate, Question, Subject};

/// What is asked about a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    cost: Option<u64>,
    verb: Asked,
}

pub(super) fn check(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Begun {
    const USAGE: &str = "TG.CHECK domain key [COST n] [WAIT ms]";
    let Options { cost, max_wait } = Options::of(command, USAGE, true)?;
    ask(session, command, USAGE, Terms { cost, verb: Asked::Take { max_wait } }, replies)
}

pub(super) fn refund(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Begun {
    const USAGE: &str = "TG.REFUND domain key [COST n]";
    let Options { cost, .. } = Options::of(command, USAGE, false)?;
    ask(session, command, USAGE, Terms { cost, verb: Asked::Refund { at: None } }, replies)
}

pub(super) fn reset(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Begun {
    const USAGE: &str = "TG.RESET domain key";
    if command.arguments() != 2 {
        return Err(Refused::usage(USAGE));
    }
    ask(session, command, USAGE, Terms { cost: None, verb: Asked::Reset }, replies)
}

/// What may follow domain and key, in any order, each once.
#[derive(Default)]
struct Options {
    cost: Option<u64>,
    max_wait: Micros,
}

impl Options {
    fn of(command: Command<'_>, usage: &'static str, may_wait: bool) -> Result<Self, Refused> {
        let (mut options, mut waits) = (Self::default(), false);
        let mut index = 2;
        while let Some(word) = command.argument(index) {
            let value = command.argument(index + 1).ok_or_else(|| Refused::syntax(word, usage))?;
            if word.eq_ignore_ascii_case(b"COST") && options.cost.is_none() {
                options.cost = Some(numbers::whole("COST", value)?);
            } else if word.eq_ignore_ascii_case(b"WAIT") && may_wait && !waits {
                options.max_wait = numbers::wait("WAIT", value)?;
                waits = true;
            } else {
                return Err(Refused::syntax(word, usage));
            }
            index += 2;
        }
        Ok(options)
    }
}

fn ask(session: &Session, command: Command<'_>, usage: &str, terms: Terms, replies: &mut Replies) -> Begun {
    let (Some(domain), Some(key)) = (command.argument(0), command.argument(1)) else {
        return Err(Refused::usage(usage));
    };
    let (domain, key) = (numbers::text("the domain", domain)?, numbers::text("the key", key)?);
    session.admit_to(domain)?;
    let subjects = [terms.subject(key)];
    match session.engine.ask_now(&terms.question(domain, &subjects)) {
        Some(answered) => {
            terms.tell(replies, &answered.map_err(Refused::because)?)?;
            Ok(None)
        }
        None => Ok(Some(Waiting::limits(session, domain, key, terms))),
    }
}

impl Terms {
    pub(super) fn subject<'a>(&self, key: &'a str) -> Subject<'a> {
        Subject { cost: self.cost, ..Subject::key(key) }
    }

    pub(super) fn question<'a>(&self, domain: &'a str, subjects: &'a [Subject<'a>]) -> Question<'a> {
        Question { domain, subjects, verb: self.verb }
    }

    /// Says the answer. A reset answers `OK` only if nothing is left of the key.
    pub(super) fn tell(&self, replies: &mut Replies, answer: &Answer) -> Result<(), Refused> {
        match (self.verb, answer.subjects.first().map(|subject| subject.fate)) {
            (Asked::Reset, Some(Fate::Unmatched)) => {
                Err(Refused::because("no policy of this domain counts the key; nothing was reset"))
            }
            (Asked::Reset, Some(Fate::SwitchedOff)) => {
                Err(Refused::because("the limit is switched off; nothing was reset"))
            }
            (Asked::Reset, _) => {
                replies.status("OK");
                Ok(())
            }
            _ => {
                tell(replies, answer);
                Ok(())
            }
        }
    }
}

fn tell(replies: &mut Replies, answer: &Answer) {
    let verdict = answer.verdict();
    let wait = if let Verdict::Allow { wait } = verdict { wait } else { Micros::ZERO };
    let decision = answer.decision.as_ref();
    let lease = decision.and_then(|decision| decision.lease);
    replies.map(8 + usize::from(lease.is_some()));
    field(replies, "verdict", |replies| replies.bulk(verdict.name()));
    field(replies, "wait_us", |replies| number(replies, Some(wait.0)));
    field(replies, "retry_after_us", |replies| number(replies, verdict.retry_after().map(|span| span.0)));
    field(replies, "remaining", |replies| number(replies, decision.map(|decision| decision.remaining())));
    field(replies, "limit", |replies| number(replies, decision.map(|decision| decision.limit())));
    let reset_after = decision.map_or(0, |decision| decision.reset_after().0);
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
