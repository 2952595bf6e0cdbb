//! `ratekeeper explain`: the decision about one request of a file, or about the next request of a key of a running server or
//! a store, with its arithmetic.
//!
//! The file is read twice: once to find the request, once to replay the earlier requests of its key. The replay keeps the
//! key's state instead of a store, so that the state before the request can be shown.

mod args;
mod live;

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use ratekeeper_core::{Decision, Policy, Timestamp, Verb, store_api::KeyState};
use ratekeeper_http::explain::Explanation;

pub(crate) use self::args::ExplainArgs;
use crate::{
    policies::{self, SelectedPolicy},
    report::{CommandResult, Failure, millis, shown},
    simulate::{Requests, TakeHistory, micros},
};

pub(crate) fn run(args: &ExplainArgs) -> CommandResult {
    let Some(file) = args.requests.as_deref() else { return live::run(args) };
    if file == Path::new("-") {
        return Err(Failure::Options("explain reads the requests twice; give a file instead of -"));
    }
    let [rules] = args.rules.as_slice() else {
        return Err(Failure::Options("requests of a file are explained by one rule file; give --rules once"));
    };
    let SelectedPolicy { policy, cost } = policies::one(rules, args.policy.as_deref())?;
    let wanted = Wanted::of(args)?;
    let found = find(&wanted, file, cost)?;
    let explained = replay(&policy, &found, file, cost)?;
    let mut out = io::stdout().lock();
    let explanation = explained.explanation(&policy);
    writeln!(out, "line {} of {}, {}", found.line, file.display(), explanation.request(&found.key))?;
    write!(out, "{}", explanation.text())?;
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

fn find(wanted: &Wanted<'_>, file: &Path, cost: u64) -> Result<Found, Failure> {
    let mut requests = Requests::open(file, cost)?;
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
    Err(Failure::NoSuchRequest { file: file.display().to_string(), wanted })
}

/// The request with the state of its key before it.
struct Explained {
    at: Timestamp,
    cost: u64,
    verb: Verb,
    before: KeyState,
    decision: Decision,
}

fn replay(policy: &Policy, found: &Found, file: &Path, cost: u64) -> Result<Explained, Failure> {
    let mut requests = Requests::open(file, cost)?;
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
    Err(Failure::NoSuchRequest { file: file.display().to_string(), wanted })
}

impl Explained {
    fn explanation<'a>(&'a self, policy: &'a Policy) -> Explanation<'a> {
        Explanation {
            policy,
            before: &self.before,
            verb: self.verb,
            cost: self.cost,
            at: self.at,
            decision: &self.decision,
        }
    }
}
