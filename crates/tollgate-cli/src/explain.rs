//! `tollgate explain`: one request of a file, and in plain words why it got its answer.
//!
//! The file is read twice: once to find the request, once to replay everything its key did before. The replay holds the
//! key's state itself instead of leaving it to a store, so that the state before the request can be shown.

mod arithmetic;

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use tollgate_core::{DecidedBy, Decision, Micros, Policy, Subject, Verb, Verdict, algorithm::Algorithm};

use crate::{
    cli::ExplainArgs,
    config_check,
    policies::{self, Chosen},
    report::{Failure, Outcome, shown, span},
    simulate::{Requests, Takes, micros, told_millis},
};

pub(crate) fn run(args: &ExplainArgs) -> Outcome {
    if args.requests == Path::new("-") {
        return Err(Failure::Options("explain reads the requests twice; give a file instead of -"));
    }
    let Chosen { policy, cost } = policies::one(&args.rules, args.policy.as_deref())?;
    let wanted = Wanted::of(args)?;
    let found = find(&wanted, args, cost)?;
    let moment = replay(&policy, &found, args, cost)?;
    let mut out = io::stdout().lock();
    writeln!(out, "line {} of {}, {}", found.line, args.requests.display(), asked(&moment, &found.key))?;
    writeln!(out, "{}", answered(&moment, &policy))?;
    for (index, rule) in policy.rules().iter().enumerate() {
        let Some(told) = moment.decision.rules.get(index) else { continue };
        let shadow = if rule.is_shadow() { "; nobody is refused by it" } else { "" };
        let numbers = config_check::numbers(rule.rule());
        writeln!(out, "\nrule {} ({numbers}): {}{shadow}", rule.name(), told.verdict.name())?;
        for line in arithmetic::lines(rule, &moment.before.states[index], &moment.verb, moment.at) {
            writeln!(out, "  {line}")?;
        }
        if let (Verb::Take(take), true) = (&moment.verb, rule.counts_refused() && !moment.decision.is_allowed()) {
            let left = rule.limiting().look(&moment.before.states[index], moment.at).remaining;
            let counted = left.min(take.cost);
            writeln!(out, "  refused requests are counted: {counted} of {} are charged", take.cost)?;
        }
        writeln!(
            out,
            "  afterwards {} of {} would pass at once; the key is as good as new {}",
            told.remaining,
            told.limit,
            if told.reset_after == Micros::ZERO {
                "already".to_owned()
            } else {
                format!("in {}", span(told.reset_after))
            }
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The request somebody asks about.
enum Wanted<'a> {
    Line(u64),
    Moment { at: Micros, key: &'a str },
}

impl<'a> Wanted<'a> {
    fn of(args: &'a ExplainArgs) -> Result<Self, Failure> {
        match (args.line, args.at_ms.as_deref(), args.key.as_deref()) {
            (Some(line), _, _) => Ok(Self::Line(line)),
            (None, Some(at), Some(key)) => match micros("--at-ms", at.trim().as_bytes()) {
                Ok(at) => Ok(Self::Moment { at, key }),
                Err(problem) => Err(Failure::Option(problem.to_string())),
            },
            _ => Err(Failure::Options("name a request with --line N, or with --at-ms T and --key K")),
        }
    }
}

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
            Wanted::Moment { at, key } if request.at == at && request.key == key => key.to_owned(),
            Wanted::Moment { .. } => continue,
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
        Wanted::Moment { at, key } => format!("of key {} at {} ms", shown(key), told_millis(*at)),
    };
    Err(Failure::NoSuchRequest { file: args.requests.display().to_string(), wanted })
}

/// The request with the state of its key before it.
struct Moment {
    at: Micros,
    verb: Verb,
    before: Subject,
    decision: Decision,
}

fn replay(policy: &Policy, found: &Found, args: &ExplainArgs, cost: u64) -> Result<Moment, Failure> {
    let mut requests = Requests::open(&args.requests, cost)?;
    let mut takes = Takes::new(true);
    let mut subject = policy.fresh();
    while let Some(request) = requests.next()? {
        if request.key != found.key {
            continue;
        }
        let verb = match takes.verb(&request) {
            Ok(verb) => verb,
            Err(problem) => return Err(requests.failure(problem)),
        };
        let before = (request.number == found.number).then(|| subject.clone());
        let decision = policy.decide(&mut subject, &verb, request.at).decision;
        takes.note(&request, &decision);
        if let Some(before) = before {
            return Ok(Moment { at: request.at, verb, before, decision });
        }
    }
    // Found a moment ago; somebody must have changed the file in between.
    let wanted = format!("number {} any more; was the file changed just now?", found.number);
    Err(Failure::NoSuchRequest { file: args.requests.display().to_string(), wanted })
}

fn asked(moment: &Moment, key: &str) -> String {
    let what = match moment.verb {
        Verb::Take(take) if take.cost == 0 => "looks only (a take of 0)".to_owned(),
        Verb::Take(take) if take.max_wait == Micros::ZERO => format!("asks for {}", take.cost),
        Verb::Take(take) => format!("asks for {} and would wait {}", take.cost, span(take.max_wait)),
        Verb::Peek => "looks only".to_owned(),
        Verb::Refund { cost, .. } => format!("gives {cost} back"),
        Verb::Settle { reserved, actual, at } => {
            let when = at.map_or_else(String::new, |at| format!(" that went at {} ms", told_millis(at)));
            let correction = match actual.checked_sub(reserved) {
                Some(0) => "as estimated".to_owned(),
                Some(more) => format!("so {more} more are charged"),
                None => format!("so {} come back", reserved - actual),
            };
            format!("settles the take of {reserved}{when}: it came to {actual}, {correction}")
        }
        Verb::Penalize { cost } => format!("is charged {cost} without being asked"),
        Verb::Release(_) => "lets go of what it holds".to_owned(),
        Verb::Reset => "is forgotten".to_owned(),
        _ => "is looked at".to_owned(),
    };
    format!("at {} ms: key {} {what}", told_millis(moment.at), shown(key))
}

fn answered(moment: &Moment, policy: &Policy) -> String {
    let decider = match moment.decision.decided_by {
        DecidedBy::Rule(index) => policy.rules().get(index).map_or("", |rule| rule.name()),
        DecidedBy::Block => "block",
        DecidedBy::Nothing => return "Allowed: no rule takes part.".to_owned(),
    };
    let is_take = matches!(moment.verb, Verb::Take(take) if take.cost > 0);
    let (limit, remaining) = (moment.decision.limit(), moment.decision.remaining());
    match moment.decision.verdict {
        Verdict::Allow { wait } if wait > Micros::ZERO => {
            let goes = told_millis(moment.at + wait);
            format!(
                "Allowed, to go after {}, at {goes} ms. Rule {decider} has the least left: {remaining} of {limit}.",
                span(wait),
            )
        }
        Verdict::Allow { .. } if is_take => {
            format!("Allowed at once. Rule {decider} has the least left: {remaining} of {limit}.")
        }
        Verdict::Allow { .. } => format!("Done. Rule {decider} has the least left: {remaining} of {limit}."),
        Verdict::Deny { retry_after } => {
            let passes = told_millis(moment.at + retry_after);
            format!(
                "Denied by rule {decider}. The same request passes in {}, at {passes} ms, if nobody else comes; \
                 now {remaining} would pass.",
                span(retry_after),
            )
        }
        Verdict::Never => {
            format!("Never: rule {decider} lets at most {limit} through at once, however long one waits.")
        }
    }
}
