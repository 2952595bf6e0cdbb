//! `ratekeeper explain`: the decision about one request of a file, with its arithmetic.
//!
//! The file is read twice: once to find the request, once to replay the earlier requests of its key. The replay keeps the
//! key's state instead of a store, so that the state before the request can be shown.

mod args;
mod arithmetic;

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use ratekeeper_core::{
    DecidedBy, Decision, Policy, Span, Timestamp, Verb, Verdict, algorithm::Algorithm, store_api::KeyState,
};

pub(crate) use self::args::ExplainArgs;
use crate::{
    config_check,
    policies::{self, SelectedPolicy},
    report::{CommandResult, Failure, millis, shown, span},
    simulate::{Requests, TakeHistory, micros},
};

pub(crate) fn run(args: &ExplainArgs) -> CommandResult {
    if args.requests == Path::new("-") {
        return Err(Failure::Options("explain reads the requests twice; give a file instead of -"));
    }
    let SelectedPolicy { policy, cost } = policies::one(&args.rules, args.policy.as_deref())?;
    let wanted = Wanted::of(args)?;
    let found = find(&wanted, args, cost)?;
    let explained = replay(&policy, &found, args, cost)?;
    let mut out = io::stdout().lock();
    writeln!(out, "line {} of {}, {}", found.line, args.requests.display(), describe_request(&explained, &found.key))?;
    writeln!(out, "{}", describe_decision(&explained, &policy))?;
    for (index, rule) in policy.rules().iter().enumerate() {
        let Some(result) = explained.decision.rules.get(index) else { continue };
        let shadow = if rule.is_shadow() { "; not enforced" } else { "" };
        let numbers = config_check::numbers(rule.rule());
        writeln!(out, "\nrule {} ({numbers}): {}{shadow}", rule.name(), result.verdict.name())?;
        for line in arithmetic::lines(rule, &explained.before.states[index], explained.take_cost(), explained.at) {
            writeln!(out, "  {line}")?;
        }
        if let (Verb::Take(_), true) = (&explained.verb, rule.counts_refused() && !explained.decision.is_allowed()) {
            let left = rule.algorithm().look(&explained.before.states[index], explained.at).remaining;
            let counted = left.min(explained.cost);
            writeln!(out, "  refused requests are counted: {counted} of {} are charged", explained.cost)?;
        }
        writeln!(
            out,
            "  afterwards {} of {} would pass at once; the key is in its initial state {}",
            result.remaining,
            result.limit,
            if result.reset_after == Span::ZERO {
                "already".to_owned()
            } else {
                format!("in {}", span(result.reset_after))
            }
        )?;
    }
    if policy.prepaid().is_some() {
        writeln!(
            out,
            "\nspeed: prepaid; the numbers are those of the store, without permits that processes hold in advance"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The request to explain.
enum Wanted<'a> {
    Line(u64),
    At { at: Timestamp, key: &'a str },
}

impl<'a> Wanted<'a> {
    fn of(args: &'a ExplainArgs) -> Result<Self, Failure> {
        match (args.line, args.at_ms.as_deref(), args.key.as_deref()) {
            (Some(line), _, _) => Ok(Self::Line(line)),
            (None, Some(at), Some(key)) => match micros("--at-ms", at.trim().as_bytes()) {
                Ok(since_epoch) => Ok(Self::At { at: Timestamp::EPOCH + since_epoch, key }),
                Err(problem) => Err(Failure::Option(problem.to_string())),
            },
            _ => Err(Failure::Options("name a request with --line N, or with --at-ms T and --key K")),
        }
    }
}

/// Where the request is in the file.
struct Found {
    number: u64,
    line: u64,
    key: String,
}

fn find(wanted: &Wanted<'_>, args: &ExplainArgs, cost: u64) -> Result<Found, Failure> {
    let mut requests = Requests::open(&args.requests, cost)?;
    while let Some(request) = requests.next()? {
        let number = request.number;
        let key = match *wanted {
            Wanted::At { at, key } if request.at == at && request.key == key => key.to_owned(),
            Wanted::At { .. } => continue,
            Wanted::Line(line) => {
                let key = request.key.to_owned();
                match requests.line() {
                    here if here < line => continue,
                    here if here > line => break,
                    _ => key,
                }
            }
        };
        return Ok(Found { number, line: requests.line(), key });
    }
    let wanted = match wanted {
        Wanted::Line(line) => {
            format!("in line {line}; the header is line 1, and a request in several lines has the first")
        }
        Wanted::At { at, key } => format!("of key {} at {} ms", shown(key), millis(*at)),
    };
    Err(Failure::NoSuchRequest { file: args.requests.display().to_string(), wanted })
}

/// The request with the state of its key before it.
struct Explained {
    at: Timestamp,
    cost: u64,
    verb: Verb,
    before: KeyState,
    decision: Decision,
}

fn replay(policy: &Policy, found: &Found, args: &ExplainArgs, cost: u64) -> Result<Explained, Failure> {
    let mut requests = Requests::open(&args.requests, cost)?;
    let mut takes = TakeHistory::new(true);
    let mut state = policy.fresh();
    while let Some(request) = requests.next()? {
        if request.key != found.key {
            continue;
        }
        let (cost, verb) = match takes.verb(&request) {
            Ok(request) => request,
            Err(problem) => return Err(requests.failure(problem)),
        };
        let before = (request.number == found.number).then(|| state.clone());
        let decision = policy.decide(&mut state, cost, &verb, request.at).decision;
        takes.add(&request, &decision);
        if let Some(before) = before {
            return Ok(Explained { at: request.at, cost, verb, before, decision });
        }
    }
    // The first pass found it, so the file has changed.
    let wanted = format!("number {} any more; was the file changed just now?", found.number);
    Err(Failure::NoSuchRequest { file: args.requests.display().to_string(), wanted })
}

impl Explained {
    /// The cost of a take; 0 for any other verb.
    fn take_cost(&self) -> u64 {
        if let Verb::Take(_) = self.verb { self.cost } else { 0 }
    }
}

fn describe_request(explained: &Explained, key: &str) -> String {
    let cost = explained.cost;
    let action = match explained.verb {
        Verb::Take(_) if cost == 0 => "takes nothing (a take of 0)".to_owned(),
        Verb::Take(take) if take.max_wait == Span::ZERO => format!("asks for {cost}"),
        Verb::Take(take) => format!("asks for {cost} and would wait up to {}", span(take.max_wait)),
        Verb::Peek => "peeks".to_owned(),
        Verb::Refund { .. } => format!("refunds {cost}"),
        Verb::Settle { actual, at } => {
            let when = at.map_or_else(String::new, |at| format!(" at {} ms", millis(at)));
            let correction = match actual.checked_sub(cost) {
                Some(0) => "as estimated".to_owned(),
                Some(more) => format!("so {more} more are charged"),
                None => format!("so {} are refunded", cost - actual),
            };
            format!("settles the take of {cost}{when}: the actual cost is {actual}, {correction}")
        }
        Verb::Penalize => format!("is penalized by {cost}"),
        Verb::Release(_) => "releases its permits".to_owned(),
        Verb::Reset => "is reset".to_owned(),
        _ => "is read".to_owned(),
    };
    format!("at {} ms: key {} {action}", millis(explained.at), shown(key))
}

fn describe_decision(explained: &Explained, policy: &Policy) -> String {
    let decider = match explained.decision.decided_by {
        DecidedBy::Rule(index) => policy.rules().get(index).map_or("", |rule| rule.name()),
        DecidedBy::Block => "block",
        DecidedBy::Nothing if explained.decision.is_allowed() => return "Allowed: no rule applies.".to_owned(),
        DecidedBy::Nothing => return "Never: the policy denies every request.".to_owned(),
    };
    let is_take = explained.take_cost() > 0;
    let (limit, remaining) = (explained.decision.limit(), explained.decision.remaining());
    match explained.decision.verdict {
        Verdict::Allow { wait } if wait > Span::ZERO => {
            let goes = millis(explained.at + wait);
            format!(
                "Allowed after a wait of {}, at {goes} ms. Rule {decider} has the least left: {remaining} of {limit}.",
                span(wait),
            )
        }
        Verdict::Allow { .. } if is_take => {
            format!("Allowed at once. Rule {decider} has the least left: {remaining} of {limit}.")
        }
        Verdict::Allow { .. } => format!("Done. Rule {decider} has the least left: {remaining} of {limit}."),
        Verdict::Deny { retry_after } => {
            let passes = millis(explained.at + retry_after);
            format!(
                "Denied by rule {decider}. The same request passes in {}, at {passes} ms, if no other request comes; \
                 now {remaining} would pass.",
                span(retry_after),
            )
        }
        Verdict::Never => {
            format!("Never: rule {decider} admits at most {limit} at once, however long the request waits.")
        }
    }
}
