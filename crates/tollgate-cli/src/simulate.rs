//! `tollgate simulate`: requests from a file against rules from a file, on the clock of the file.
//!
//! ```text
//! requests ─▶ run ─▶ jsonl | table        one line per request, as it is answered
//!              │└──▶ watch ─▶ summary | plot
//!              └ keeper: memory | redis   both by the clock of the file
//! ```

mod cells;
mod jsonl;
mod keeper;
mod plot;
mod progress;
mod redis;
pub(crate) mod requests;
mod run;
mod table;
mod takes;
mod timeline;
mod times;
mod watch;
mod windows;

use std::{
    io::{self, BufWriter, StdoutLock},
    path::Path,
    process::ExitCode,
};

use tollgate_core::Policy;

pub(crate) use self::{
    cells::{micros, told_millis},
    requests::Requests,
    takes::Takes,
    watch::{Gauge, Watch},
};
use self::{
    jsonl::Jsonl,
    keeper::{Keeper, Place},
    run::{Answered, Replay},
    table::Table,
};
use crate::{
    cli::{Format, SimulateArgs},
    policies::{self, Chosen},
    report::{self, Failure, Outcome},
};

pub(crate) fn run(args: &SimulateArgs) -> Outcome {
    let place = Place::of(args)?;
    args.plot.as_deref().map_or(Ok(()), plot::check)?;
    if args.compare { compare(args, &place) } else { simulate(args, &place) }
}

/// One policy; every answer is written down.
fn simulate(args: &SimulateArgs, place: &Place) -> Outcome {
    let Chosen { policy, cost } = policies::one(&args.rules, args.policy.as_deref())?;
    let mut requests = Requests::open(&args.requests, cost)?;
    let mut output = Output::new(args.format, &policy);
    let summary = args.summary || args.format == Format::Table;
    let mut watch = (summary || args.plot.is_some()).then(|| Watch::new(&policy, args.plot.is_some()));
    let mut replay = Replay::new(Keeper::new(place, policy)?, requests.has_ops());

    let ran = replay.all(&mut requests, |answered| {
        output.write(answered)?;
        if let Some(watch) = &mut watch {
            watch.note(answered);
        }
        Ok(())
    });
    // What was answered before a mistake is worth having.
    let written = output.finish();
    replay.clean_up();
    ran.and(written)?;
    if let Some(mut watch) = watch {
        watch.finish();
        if let Some(file) = &args.plot {
            plot::draw(file, std::slice::from_ref(&watch))?;
        }
        if summary {
            report::summarize(&watch);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Every policy of the file in turn on the same requests; only what it came to is told.
fn compare(args: &SimulateArgs, place: &Place) -> Outcome {
    if args.requests == Path::new("-") {
        return Err(Failure::Options("--compare reads the requests once per policy; give a file instead of -"));
    }
    if args.plot.is_none() && args.format == Format::Jsonl {
        return Err(Failure::Options(
            "--compare tells totals, not single answers; add --plot FILE.svg or --format table, or choose one policy \
             with --policy",
        ));
    }
    let mut watches = Vec::new();
    for Chosen { policy, cost } in policies::all(&args.rules)? {
        let mut requests = Requests::open(&args.requests, cost)?;
        let mut watch = Watch::new(&policy, args.plot.is_some());
        let mut replay = Replay::new(Keeper::new(place, policy)?, requests.has_ops());
        let ran = replay.all(&mut requests, |answered| {
            watch.note(answered);
            Ok(())
        });
        replay.clean_up();
        ran?;
        watch.finish();
        watches.push(watch);
    }
    if args.format == Format::Table {
        report::compare(&mut io::stdout().lock(), &watches)?;
    }
    if let Some(file) = &args.plot {
        plot::draw(file, &watches)?;
    }
    if args.summary {
        watches.iter().for_each(report::summarize);
    }
    Ok(ExitCode::SUCCESS)
}

/// Where answers go.
enum Output {
    Jsonl(Jsonl<StdoutLock<'static>>),
    Table(Table<BufWriter<StdoutLock<'static>>>),
}

impl Output {
    fn new(format: Format, policy: &Policy) -> Self {
        let out = io::stdout().lock();
        match format {
            Format::Jsonl => Self::Jsonl(Jsonl::new(out, policy)),
            Format::Table => Self::Table(Table::new(BufWriter::new(out), policy)),
        }
    }

    #[inline]
    fn write(&mut self, answered: Answered<'_>) -> Result<(), Failure> {
        match self {
            Self::Jsonl(jsonl) => jsonl.write(&answered.request, answered.decision)?,
            Self::Table(table) => table.write(&answered.request, answered.decision)?,
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
