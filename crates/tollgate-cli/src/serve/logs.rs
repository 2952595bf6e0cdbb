//! Where the server's log goes: standard error, in lines for people or for programs.

use tracing_subscriber::{EnvFilter, fmt};

use super::args::{LogFormat, ServeArgs};
use crate::report::Failure;

pub(super) fn start(args: &ServeArgs) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&args.log).map_err(|error| {
        Failure::Option(format!("--log {}: {error}; use error, warn, info or debug", args.log.escape_debug()))
    })?;
    let lines = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match args.log_format {
        LogFormat::Text => lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}
