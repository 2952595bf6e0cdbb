//! Messages and exit codes: errors with their remedy, and text for a terminal.
//!
//! Every error names the location, the value found and the remedy.

mod failure;
mod request_problem;
mod text;

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use ratekeeper_memory::Stats;

pub(crate) use self::{
    failure::Failure,
    request_problem::RequestProblem,
    text::{clipped, counted, escaped_lines, millis, shown, span},
};

/// Exit code of a command, or its failure.
pub(crate) type CommandResult = Result<ExitCode, Failure>;

/// Prints the failure and returns the exit code.
pub(crate) fn conclude(outcome: CommandResult) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(failure) => {
            print(&failure);
            ExitCode::from(2)
        }
    }
}

/// Writes one message to standard error. A write error is ignored, since there is no other output.
pub(crate) fn print(message: &dyn fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{message}");
}

/// Warns if the store evicted keys, which makes the results inexact.
pub(crate) fn warn_if_memory_was_short(stats: Stats, budget_mib: u32) {
    if stats.evicted > 0 || stats.overflowed > 0 {
        print(&format_args!(
            "warning: {budget_mib} MiB were too few: {} keys were evicted early and {} requests of keys without room were \
             counted together, so the decisions are not exact; use --budget {}",
            stats.evicted,
            stats.overflowed,
            u64::from(budget_mib) * 2,
        ));
    }
}
