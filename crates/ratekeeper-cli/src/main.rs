//! The `ratekeeper` command.
//!
//! ```text
//! arguments ─cli─▶ command ─▶ module of the command ─▶ result ─report─▶ messages and exit code
//! ```

mod argument;
#[cfg(feature = "assets")]
mod assets;
mod check;
mod cli;
mod config_check;
mod conformance;
mod doctor;
mod explain;
mod health;
mod policies;
mod report;
mod serve;
mod simulate;
mod top;
mod web;

use std::process::ExitCode;

use crate::cli::{Command, ConfigCommand};

/// Returns memory to the system within seconds after a peak; see `docs/decisions/0015-jemalloc.md`.
#[cfg(all(feature = "jemalloc", target_os = "linux", any(target_env = "gnu", target_env = "musl")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let outcome = match cli::read().command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Conformance(command) => conformance::run(&command),
        Command::Config(ConfigCommand::Check { paths }) => config_check::check(&paths),
        #[cfg(feature = "assets")]
        Command::Assets { directory } => assets::run(&directory),
        Command::Config(ConfigCommand::Schema) => config_check::schema(),
    };
    report::conclude(outcome)
}
