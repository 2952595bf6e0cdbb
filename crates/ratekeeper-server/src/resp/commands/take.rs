//! `RK.TAKE`: a check with rules that come with the call.
//!
//! ```text
//!   RK.TAKE key rule [AND rule …] [COST n] [WAIT ms]
//!   rule: algorithm limit per [FIELD value …]
//! ```
//!
//! Fields are those of a rule in a rule file, in any case; the third word of a `concurrency` rule is its lease. A number alone is a
//! time in seconds. Rules are read by the reader of rule files, and named `1`, `2`, … unless they have a `NAME`.
//!
//! A key has one state for all rules that it is used with, as with `CL.THROTTLE`: rules are matched by name.

use ratekeeper_core::{Take, Verb};
use serde_json::{Map, Value};

use super::{Command, CommandError, MaybePending, Pending, Replies, Session, limits, numbers};
use crate::{
    engine::INLINE_DOMAIN,
    inline_rules,
    request::{InlineRules, Subject},
};

const USAGE: &str = "RK.TAKE key algorithm limit per [FIELD value …] [AND algorithm limit per …] [COST n] [WAIT ms]";

/// The arguments of a pending command.
#[derive(Debug)]
pub(super) struct OwnedTake {
    key: Box<str>,
    rules: Box<str>,
    terms: limits::LimitRequest,
}

pub(super) fn take(session: &Session, command: Command<'_>, replies: &mut Replies) -> MaybePending {
    session.admit_to_throttle()?;
    let (Some(key), Some(_)) = (command.argument(0), command.argument(1)) else {
        return Err(CommandError::usage(USAGE));
    };
    let key = numbers::text("the key", key)?;
    let (rules, terms) = read(command)?;
    let take = OwnedTake { key: key.into(), rules: rules.into(), terms };
    let subjects = [take.subject()];
    let request = terms.request(INLINE_DOMAIN, &subjects);
    match session.engine.now(|| session.engine.decide(&request)) {
        Some(answered) => {
            terms.write_reply(replies, &answered.map_err(CommandError::because)?, &subjects)?;
            Ok(None)
        }
        None => Ok(Some(Pending::take(session, take))),
    }
}

impl OwnedTake {
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn terms(&self) -> limits::LimitRequest {
        self.terms
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        let rules = InlineRules { text: &self.rules, read: inline_rules::of_json };
        Subject { rules: Some(rules), cost: self.terms.cost(), ..Subject::key(&self.key) }
    }
}

/// The rules as JSON, and cost and wait.
fn read(command: Command<'_>) -> Result<(String, limits::LimitRequest), CommandError> {
    let mut words = (1..command.arguments()).map_while(|index| command.argument(index)).peekable();
    let (mut rules, mut cost, mut max_wait) = (Vec::new(), None, None);
    loop {
        let (Some(algorithm), Some(limit), Some(span)) = (words.next(), words.next(), words.next()) else {
            return Err(CommandError::usage(USAGE));
        };
        let mut rule = Map::new();
        let algorithm = numbers::text("the algorithm", algorithm)?.to_ascii_lowercase();
        let span_field = if algorithm == "concurrency" { "lease" } else { "per" };
        rule.insert("name".to_owned(), Value::from((rules.len() + 1).to_string()));
        rule.insert("algorithm".to_owned(), Value::from(algorithm));
        rule.insert("limit".to_owned(), value("limit", limit)?);
        rule.insert(span_field.to_owned(), value(span_field, span)?);
        let mut is_last = true;
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"AND") {
                is_last = false;
                break;
            }
            let given = words.next().ok_or_else(|| CommandError::syntax(word, USAGE))?;
            if word.eq_ignore_ascii_case(b"COST") && cost.is_none() {
                cost = Some(numbers::whole("COST", given)?);
            } else if word.eq_ignore_ascii_case(b"WAIT") && max_wait.is_none() {
                max_wait = Some(numbers::wait("WAIT", given)?);
            } else {
                let field = numbers::text("the field", word)?.to_ascii_lowercase();
                let given = value(&field, given)?;
                if rule.insert(field.clone(), given).is_some() && field != "name" {
                    return Err(CommandError::syntax(word, USAGE));
                }
            }
        }
        rules.push(Value::Object(rule));
        if is_last {
            break;
        }
    }
    let verb = Verb::Take(Take::up_to(max_wait.unwrap_or_default()));
    Ok((Value::Array(rules).to_string(), limits::LimitRequest::new(cost, verb)))
}

/// The value of a field: a number, a truth value or text. A number alone is seconds where a time is expected.
fn value(field: &str, bytes: &[u8]) -> Result<Value, CommandError> {
    let word = numbers::text("the value", bytes)?;
    let is_number = !word.is_empty() && word.len() <= 19 && word.bytes().all(|byte| byte.is_ascii_digit());
    Ok(match word {
        _ if is_number && ["per", "lease"].contains(&field) => Value::from(format!("{word}s")),
        _ if is_number && field != "name" => Value::from(word.parse::<u64>().unwrap_or(u64::MAX)),
        "true" | "false" => Value::from(word == "true"),
        _ => Value::from(word),
    })
}
