//! `ratekeeper simulate`: replays requests from a file against rules; the times in the file are the clock.
//!
//! ```text
//! requests ─▶ replay ─▶ jsonl | table        one line per request, as it is decided
//!              │└──▶ stats ─▶ totals | plot
//!              └ backend: memory | redis  both on the clock of the file
//! ```
//!
//! A file with `entry:` columns takes another way: [`descriptors`].

mod args;
mod backend;
mod csv_fields;
mod descriptors;
mod history;
mod jsonl;
mod peak_windows;
mod plot;
mod progress;
mod redis;
mod replay;
mod requests;
mod stats;
mod table;
mod time_axis;
mod timeline;
mod totals;

use std::{
    io::{self, BufWriter, StdoutLock},
    path::Path,
    process::ExitCode,
};

use ratekeeper_core::Policy;

use self::{args::Format, replay::Decided, stats::RunStats, table::TableWriter};
pub(crate) use self::{
    args::SimulateArgs,
    backend::{Backend, StoreChoice},
    csv_fields::micros,
    history::TakeHistory,
    jsonl::JsonlWriter,
    replay::Replay,
    requests::Requests,
};
use crate::{
    policies::{self, SelectedPolicy},
    report::{CommandResult, Failure},
};

pub(crate) fn run(args: &SimulateArgs) -> CommandResult {
    let store = StoreChoice::of(args)?;
    args.plot.as_deref().map_or(Ok(()), plot::check)?;
    if args.compare { compare(args, &store) } else { simulate(args, &store) }
}

/// One policy; writes every decision.
fn simulate(args: &SimulateArgs, store: &StoreChoice) -> CommandResult {
    // Mistakes in the rules are reported before those in the requests.
    let _ = policies::all(&args.rules)?;
    let mut requests = Requests::open(&args.requests, 1)?;
    if requests.has_descriptors() {
        return descriptors::run(args, requests, store);
    }
    let SelectedPolicy { policy, cost } = policies::one(&args.rules, args.policy.as_deref())?;
    requests.set_default_cost(cost);
    let mut output = Output::new(args.format, &policy);
    let summary = args.summary || args.format == Format::Table;
    let mut stats = (summary || args.plot.is_some()).then(|| RunStats::new(&policy, args.plot.is_some()));
    let mut replay = Replay::new(Backend::new(store, policy)?, requests.has_ops());

    let replayed = replay.all(&mut requests, |decided| {
        output.write(decided)?;
        if let Some(stats) = &mut stats {
            stats.add(decided);
        }
        Ok(())
    });
    // Decisions before an error are written too.
    let written = output.finish();
    replay.clean_up();
    replayed.and(written)?;
    if let Some(mut stats) = stats {
        stats.finish();
        if let Some(file) = &args.plot {
            plot::draw(file, std::slice::from_ref(&stats))?;
        }
        if summary {
            totals::summarize(&stats);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Every policy of the file on the same requests; writes only totals.
fn compare(args: &SimulateArgs, store: &StoreChoice) -> CommandResult {
    if args.requests == Path::new("-") {
        return Err(Failure::Options("--compare reads the requests once per policy; give a file instead of -"));
    }
    if args.plot.is_none() && args.format == Format::Jsonl {
        return Err(Failure::Options(
            "--compare prints totals, not single decisions; add --plot FILE.svg or --format table, or choose one policy \
             with --policy",
        ));
    }
    let mut runs = Vec::new();
    for SelectedPolicy { policy, cost } in policies::all(&args.rules)? {
        let mut requests = Requests::open(&args.requests, cost)?;
        let mut stats = RunStats::new(&policy, args.plot.is_some());
        let mut replay = Replay::new(Backend::new(store, policy)?, requests.has_ops());
        let replayed = replay.all(&mut requests, |decided| {
            stats.add(decided);
            Ok(())
        });
        replay.clean_up();
        replayed?;
        stats.finish();
        runs.push(stats);
    }
    if args.format == Format::Table {
        totals::compare(&mut io::stdout().lock(), &runs)?;
    }
    if let Some(file) = &args.plot {
        plot::draw(file, &runs)?;
    }
    if args.summary {
        runs.iter().for_each(totals::summarize);
    }
    Ok(ExitCode::SUCCESS)
}

/// Output format.
enum Output {
    Jsonl(JsonlWriter<StdoutLock<'static>>),
    Table(TableWriter<BufWriter<StdoutLock<'static>>>),
}

impl Output {
    fn new(format: Format, policy: &Policy) -> Self {
        let out = io::stdout().lock();
        match format {
            Format::Jsonl => Self::Jsonl(JsonlWriter::new(out, policy)),
            Format::Table => Self::Table(TableWriter::new(BufWriter::new(out), policy)),
        }
    }

    #[inline]
    fn write(&mut self, decided: Decided<'_>) -> Result<(), Failure> {
        match self {
            Self::Jsonl(jsonl) => jsonl.write(&decided.request, decided.decision)?,
            Self::Table(table) => table.write(&decided.request, decided.decision)?,
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        match self {
            Self::Jsonl(jsonl) => jsonl.finish()?,
            Self::Table(table) => table.finish()?,
        }
        Ok(())
    }
}
