//! Replay by descriptors: columns `entry:NAME` of the requests file are matched by the rule file, as a server matches them.
//!
//! ```text
//! at_ms,entry:user,entry:ip,entry2:tenant,cost
//! ```
//!
//! `entry:` columns are the first descriptor of a request, `entry2:` to `entry8:` further ones of the same decision. An empty
//! field leaves its entry out. Each line of output is that of `POST /v1/check`.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    io::{self, BufWriter, Write},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use ratekeeper_core::{ManualClock, Source, Verb, Verdict};
use ratekeeper_memory::{MemoryConfig, MemoryStore};
use ratekeeper_redis::{RedisConfig, RedisStore};
use ratekeeper_rules::{key, read_path};
use ratekeeper_server::{
    engine::{Answer, Engine},
    http::{answer_line, name_undecided},
    request::{Request, Subject},
    telemetry::Telemetry,
    wiring::AnyStore,
};

use super::{
    Requests, SimulateArgs, TakeHistory,
    args::Format,
    backend::StoreChoice,
    requests::{DescriptorLine, RequestLine},
};
use crate::report::{CommandResult, Failure, print};

/// Decides every request of the file by all rules of the rule file.
pub(super) fn run(args: &SimulateArgs, mut requests: Requests, store: &StoreChoice) -> CommandResult {
    if args.policy.is_some() || args.compare || args.plot.is_some() || args.format == Format::Table {
        return Err(Failure::Options(
            "entry: columns select the policies by the rule file; leave out --policy, --compare, --plot and --format table",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let (any, clock) = open(store);
    let engine = Engine::new(any, Arc::new(Telemetry::default()));
    let domain = load(&engine, &args.rules)?;
    let mut replay =
        DescriptorReplay { engine: &engine, domain, takes: TakeHistory::new(requests.has_ops()), totals: [0; 4] };
    let mut out = BufWriter::new(io::stdout().lock());
    let replayed = replay_all(&mut replay, &mut requests, &clock, &runtime, &mut out);
    out.flush()?;
    if let AnyStore::Redis(store) = engine.store()
        && let Err(error) = runtime.block_on(store.forget_all())
    {
        print(&format_args!("warning: {error}; the keys of this run are left to expire"));
    }
    replayed?;
    if args.summary {
        let [allowed, denied, never, unlimited] = replay.totals;
        let all = allowed + denied + never;
        print(&format_args!(
            "{all} requests, {allowed} allowed, {denied} denied, {never} never; {unlimited} without a limit"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn open(store: &StoreChoice) -> (AnyStore, ManualClock) {
    let clock = ManualClock::default();
    let any = match store {
        StoreChoice::Memory { budget_mib } => {
            let bytes = usize::try_from(u64::from(*budget_mib) << 20).unwrap_or(usize::MAX);
            AnyStore::Manual(MemoryStore::with(MemoryConfig::default().budget_bytes(bytes), clock.clone()))
        }
        StoreChoice::Redis(address) => {
            let prefix = format!("ratekeeper:simulate-{:016x}", RandomState::new().build_hasher().finish());
            let config = RedisConfig::default().prefix(prefix).manual_clock(clock.clone()).deadline(TIMEOUT);
            AnyStore::Redis(RedisStore::open((**address).clone(), config))
        }
    };
    (any, clock)
}

/// Loads the rule file; returns its domain.
fn load(engine: &Engine, rules: &Path) -> Result<String, Failure> {
    let file = read_path(rules).map_err(Failure::Rules)?;
    let domain = file.domain.clone();
    engine.load(Ok(vec![file])).map_err(|error| Failure::Option(error.to_string()))?;
    Ok(domain)
}

struct DescriptorReplay<'e> {
    engine: &'e Engine,
    domain: String,
    takes: TakeHistory,
    /// Allowed, denied, never; and those of the allowed that no rule limits.
    totals: [u64; 4],
}

fn replay_all(
    replay: &mut DescriptorReplay<'_>,
    requests: &mut Requests,
    clock: &ManualClock,
    runtime: &tokio::runtime::Runtime,
    out: &mut impl Write,
) -> Result<(), Failure> {
    while let Some(line) = requests.next_descriptors()? {
        clock.set(line.at);
        match replay.decide(&line, runtime) {
            Ok(json) => out.write_all(&json)?,
            Err(ReplayProblem::Line(problem)) => return Err(requests.failure(problem)),
            Err(ReplayProblem::Failure(failure)) => return Err(failure),
        }
    }
    Ok(())
}

enum ReplayProblem {
    Line(crate::report::RequestProblem),
    Failure(Failure),
}

impl DescriptorReplay<'_> {
    fn decide(&mut self, line: &DescriptorLine, runtime: &tokio::runtime::Runtime) -> Result<Vec<u8>, ReplayProblem> {
        let mut entries: Vec<Vec<(&str, &str)>> = line
            .descriptors
            .iter()
            .map(|one| one.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect())
            .collect();
        let rulebook = self.engine.rulebook();
        entries.iter_mut().for_each(|entries| rulebook.arrange(&self.domain, entries));
        // A settle refers to the last take of the same descriptors.
        let named: String = entries.iter().map(|entries| key::of_entries(entries)).collect::<Vec<_>>().join(" ");
        let taken = RequestLine {
            at: line.at,
            key: &named,
            cost: line.cost.unwrap_or(1),
            verb: line.verb,
            terms: line.terms,
            number: line.number,
        };
        let (cost, verb) = self.takes.verb(&taken).map_err(ReplayProblem::Line)?;
        let cost = if let Verb::Settle { .. } = verb { Some(cost) } else { line.cost };
        let subjects: Vec<Subject<'_>> =
            entries.iter().map(|entries| Subject { cost, ..Subject::descriptor(entries) }).collect();
        let request = Request { domain: &self.domain, subjects: &subjects, verb };
        let failed = |failure| ReplayProblem::Failure(failure);
        let answered = runtime.block_on(self.engine.decide_with(&request, &line.terms));
        let mut answer = answered.map_err(|error| failed(Failure::Option(error.to_string())))?;
        self.check_source(&answer).map_err(failed)?;
        if let Some(decision) = &answer.decision {
            self.takes.add(&taken, decision);
        }
        self.count(&answer);
        name_undecided(&mut answer, &subjects);
        Ok(answer_line(&answer, &subjects, verb, line.at))
    }

    /// A fallback decision would not follow the rules, so it ends the run.
    fn check_source(&self, answer: &Answer) -> Result<(), Failure> {
        match answer.decision.as_ref().map(|decision| decision.source) {
            Some(Source::Local | Source::Open | Source::Closed) => {
                Err(Failure::Option("--store did not answer; the run ends here".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, answer: &Answer) {
        let index = match answer.verdict() {
            Verdict::Allow { .. } => 0,
            Verdict::Deny { .. } => 1,
            Verdict::Never => 2,
        };
        self.totals[index] += 1;
        self.totals[3] += u64::from(answer.decision.is_none());
    }
}

/// Timeout of a decision in Redis; generous, because no request waits for it.
const TIMEOUT: Duration = Duration::from_secs(10);
