//! `ratekeeper conformance`: holds a store or a server to the conformance vectors.
//!
//! ```text
//! vectors ─▶ memory | redis  on the clock of the vector: every field is compared
//!        └─▶ http | resp     on the server's clock: only vectors that do not depend on it, without their times
//! ```

mod compare;
mod stored;
mod vector;
mod wire;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};

use self::{stored::decisions_of_store, vector::VectorClock, wire::Wire};
use crate::{
    report::{CommandResult, Failure},
    simulate::StoreChoice,
    web::TlsArgs,
};

#[derive(Debug, Subcommand)]
pub(crate) enum ConformanceCommand {
    /// Run the vectors against a store or a server, and list every difference.
    Run(RunArgs),
    /// Write the rule files that a server needs for `run`, one for each vector.
    Rules(RulesArgs),
    /// Write the decisions of the embedded store into vector files.
    Record {
        /// Vector files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// memory, redis://… (a store), http://…, https://… or resp://HOST:PORT (a server with the rules of `rules`).
    #[arg(long, value_name = "TARGET")]
    against: String,
    /// Directory of the vectors.
    #[arg(long, value_name = "DIR", default_value = "conformance/v1")]
    vectors: PathBuf,
    /// Token for a server: the first line of a file, or the variable RATEKEEPER_TOKEN.
    #[arg(long, env = "RATEKEEPER_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    /// Directory of the vectors.
    #[arg(long, value_name = "DIR", default_value = "conformance/v1")]
    vectors: PathBuf,
    /// Directory to write to.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(command: &ConformanceCommand) -> CommandResult {
    match command {
        ConformanceCommand::Run(args) => run_vectors(args),
        ConformanceCommand::Rules(args) => write_rules(args),
        ConformanceCommand::Record { files } => record(files),
    }
}

fn run_vectors(args: &RunArgs) -> CommandResult {
    let mut target = Target::of(args)?;
    let mut out = io::stdout().lock();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for vector in vector::read_all(&args.vectors)? {
        let found = match &mut target {
            Target::Store(store) => Some(decisions_of_store(store, &vector)?),
            Target::Server(wire) if wire.serves(&vector) => Some(wire.decisions(&vector)?),
            Target::Server(_) => None,
        };
        let Some(found) = found else {
            skipped += 1;
            continue;
        };
        let exact = matches!(target, Target::Store(_));
        match compare::first_difference(&vector, &found, exact) {
            None => {
                passed += 1;
                writeln!(out, "ok    {}: {} requests", vector.name, vector.requests.len())?;
            }
            Some(difference) => {
                failed += 1;
                writeln!(out, "FAIL  {}: {difference}", vector.name)?;
            }
        }
    }
    let why = if skipped == 0 { "" } else { ": they need a manual clock, or verbs that this wire lacks" };
    writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped{why}")?;
    Ok(if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_rules(args: &RulesArgs) -> CommandResult {
    let unwritable = |path: &Path, cause| Failure::Output { name: path.display().to_string(), cause };
    fs::create_dir_all(&args.out).map_err(|cause| unwritable(&args.out, cause))?;
    let vectors = vector::read_all(&args.vectors)?;
    for vector in vectors.iter().filter(|vector| vector.clock == VectorClock::Any) {
        let file = args.out.join(format!("{}.json", vector.name));
        fs::write(&file, format!("{:#}\n", vector.rules)).map_err(|cause| unwritable(&file, cause))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn record(files: &[PathBuf]) -> CommandResult {
    for file in files {
        let mut vector = vector::read(file)?;
        let decisions = decisions_of_store(&StoreChoice::memory(), &vector)?;
        for (request, decision) in vector.requests.iter_mut().zip(decisions) {
            request.decision = decision;
        }
        let name = || file.display().to_string();
        fs::write(file, vector.to_text()).map_err(|cause| Failure::Output { name: name(), cause })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is held to the vectors.
enum Target {
    Store(StoreChoice),
    Server(Wire),
}

impl Target {
    fn of(args: &RunArgs) -> Result<Self, Failure> {
        let wanted = args.against.as_str();
        if wanted.starts_with("http://") || wanted.starts_with("https://") || wanted.starts_with("resp://") {
            return Wire::of(wanted, &args.tls, args.token_file.as_deref()).map(Self::Server);
        }
        StoreChoice::parse(wanted).map(Self::Store)
    }
}
