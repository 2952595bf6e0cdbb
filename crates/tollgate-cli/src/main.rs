//! The `tollgate` command.
//!
//! ```text
//! arguments ─cli─▶ a command ─▶ its module does the work ─▶ an outcome ─report─▶ words and an exit code
//! ```

mod check;
mod cli;
mod config_check;
mod doctor;
mod explain;
mod policies;
mod report;
mod serve;
mod simulate;
mod top;
mod web;

use std::process::ExitCode;

use crate::cli::{Command, ConfigCommand};

fn main() -> ExitCode {
    let outcome = match cli::read().command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Config(ConfigCommand::Check { paths }) => config_check::check(&paths),
        Command::Config(ConfigCommand::Schema) => config_check::schema(),
    };
    report::conclude(outcome)
}
