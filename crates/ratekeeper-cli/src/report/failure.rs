//! Failures of commands, with their messages.

use std::{error::Error, fmt, io};

use ratekeeper_core::StoreError;
use ratekeeper_redis::AddressError;
use ratekeeper_rules::Problems;
use ratekeeper_server::{server::StartError, wiring::OpenStoreError};

use super::{request_problem::RequestProblem, text::shown};

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of standard output closed it. Not reported.
    Closed,
    /// Output could not be written.
    Output { name: String, cause: io::Error },
    /// The plot has a file extension other than .svg.
    PlotName { file: String, better: String },
    /// The rule file has mistakes.
    Rules(Problems),
    /// The rule file limits nothing.
    NothingLimited { file: String },
    /// Several policies, and none was named.
    WhichPolicy { file: String, names: Vec<String> },
    /// The named policy does not exist.
    NoSuchPolicy { file: String, name: String, names: Vec<String> },
    /// The value of `--store` is not an address.
    Store(OpenStoreError),
    /// The address of a server is malformed.
    Address(AddressError),
    /// No server answers at an address.
    NotReached { address: String, cause: String },
    /// The store of a simulation could not decide.
    StoreFailed { address: String, error: StoreError },
    /// A simulation in `--store` took too long.
    StoreTooSlow { address: String, requests: u64 },
    /// Options that cannot be combined.
    Options(&'static str),
    /// An invalid value of an option.
    Option(String),
    /// The requests file cannot be opened or read.
    Unreadable { file: String, cause: io::Error },
    /// An error in the requests file.
    Request { file: String, line: u64, problem: RequestProblem },
    /// The store could not decide.
    Undecided(StoreError),
    /// The server could not start.
    Start(StartError),
    /// A server did not answer.
    NoAnswer { server: String, cause: Box<dyn Error> },
    /// A server answered with an error.
    ErrorResponse { server: String, status: u16, detail: String },
    /// The request to explain does not exist.
    NoSuchRequest { file: String, wanted: String },
}

impl From<io::Error> for Failure {
    fn from(cause: io::Error) -> Self {
        if cause.kind() == io::ErrorKind::BrokenPipe {
            Self::Closed
        } else {
            Self::Output { name: "standard output".to_owned(), cause }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("standard output was closed"),
            Self::Output { name, cause } => write!(f, "{name}: could not be written: {cause}"),
            Self::PlotName { file, better } => write!(f, "--plot {file}: plots are SVG; use --plot {better}"),
            Self::Rules(problems) => problems.fmt(f),
            Self::NothingLimited { file } => {
                write!(f, "{file}: no policy limits anything, so there is nothing to decide")
            }
            Self::WhichPolicy { file, names } => {
                write!(f, "{file}: there are {} policies; choose one with --policy: {}", names.len(), listed(names))
            }
            Self::NoSuchPolicy { file, name, names } => {
                write!(f, "{file}: there is no policy {}; choose one of: {}", shown(name), listed(names))
            }
            Self::Store(error) => write!(f, "--store: {error}"),
            Self::Address(error) => error.fmt(f),
            Self::NotReached { address, cause } => write!(f, "{address}: {cause}"),
            Self::StoreFailed { address, error } => {
                // The address is written once.
                write!(f, "--store {address}: ")?;
                match error {
                    StoreError::Unreachable { cause, .. } => cause.fmt(f),
                    other => other.fmt(f),
                }
            }
            Self::StoreTooSlow { address, requests } => write!(
                f,
                "--store {address}: an hour has passed after {requests} requests, and keys begin to expire there; use a shorter \
                 file, or --store memory"
            ),
            Self::Options(message) => f.write_str(message),
            Self::Option(message) => f.write_str(message),
            Self::Unreadable { file, cause } => match cause.kind() {
                io::ErrorKind::NotFound => write!(f, "{file}: there is no such file"),
                io::ErrorKind::PermissionDenied => write!(f, "{file}: this user may not read it"),
                _ => write!(f, "{file}: could not be read: {cause}"),
            },
            Self::Request { file, line, problem } => write!(f, "{file}:{line}: {problem}"),
            Self::Undecided(error) => error.fmt(f),
            Self::Start(error) => error.fmt(f),
            Self::NoAnswer { server, cause } => write!(f, "{server}: {cause}"),
            Self::ErrorResponse { server, status, detail } => write!(f, "{server}: {status}: {detail}"),
            Self::NoSuchRequest { file, wanted } => write!(f, "{file}: there is no request {wanted}"),
        }
    }
}

fn listed(names: &[String]) -> String {
    const MAX_NAMES: usize = 20;
    let mut listed = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > MAX_NAMES {
        listed.push_str(&format!(" and {} more", names.len() - MAX_NAMES));
    }
    listed
}
