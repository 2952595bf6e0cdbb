//! Words for people: what went wrong, how to put it right, and what came out in total.
//!
//! Every complaint names the place, what was found there and what would do.

mod totals;

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use tollgate_core::{
    Micros, StoreError,
    bounds::{MAX_KEY_BYTES, MAX_PERMITS},
};
use tollgate_memory::Stats;
use tollgate_redis::{AddressError, doctor::NotReached};
use tollgate_rules::Problems;
use tollgate_server::server::StartError;
use tollgate_server::text::Escaped;

pub(crate) use self::totals::{compare, summarize};
use crate::{
    simulate::{requests::MAX_RECORD_BYTES, told_millis},
    web::Trouble,
};

/// How a command ends when it does not fail.
pub(crate) type Outcome = Result<ExitCode, Failure>;

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Whoever read our output has had enough. Nothing to complain about.
    Closed,
    /// Output could not be written.
    Output { name: String, cause: io::Error },
    /// A plot named like another kind of picture.
    PlotName { file: String, better: String },
    /// The rule file has mistakes.
    Rules(Problems),
    /// The rule file limits nothing.
    NothingLimited { file: String },
    /// Several policies, and none was named.
    WhichPolicy { file: String, names: Vec<String> },
    /// Another one was named.
    NoSuchPolicy { file: String, name: String, names: Vec<String> },
    /// The value of `--store` is none.
    Store(AddressError),
    /// The address of a server is none.
    Address(AddressError),
    /// Nobody answers at an address.
    NotReached(NotReached),
    /// The server that keeps the keys could not decide.
    StoreFailed { address: String, error: StoreError },
    /// What `--store` asked for took too long.
    StoreTooSlow { address: String, rows: u64 },
    /// Options that do not go together.
    Options(&'static str),
    /// The value of an option.
    Option(String),
    /// The requests file cannot be opened or read.
    Unreadable { file: String, cause: io::Error },
    /// Something in the requests file.
    Request { file: String, line: u64, problem: RequestProblem },
    /// The store could not decide.
    Undecided(StoreError),
    /// The server could not start.
    Start(StartError),
    /// No answer from where a server should be.
    NoAnswer { server: String, trouble: Trouble },
    /// A server answered with an error.
    ServerSaid { server: String, status: u16, detail: String },
    /// The request to be explained is not there.
    NoSuchRequest { file: String, wanted: String },
}

/// What is wrong with a line of the requests file.
#[derive(Debug)]
pub(crate) enum RequestProblem {
    Empty,
    MissingColumn(&'static str),
    UnknownColumn(String),
    ColumnTwice(String),
    Cells { found: usize, expected: usize },
    TooLong,
    OpenQuote,
    NoKey,
    KeyTooLong { bytes: usize },
    KeyNotText,
    NoTime,
    Time { column: &'static str, found: String },
    TimeTooLate { column: &'static str, found: String },
    Backwards { at: String, before: String },
    Cost { found: String },
    CostTooLarge { found: String },
    Op { found: String },
    NothingToSettle { key: String },
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

/// Says what there is to say and picks the exit code.
pub(crate) fn conclude(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(&failure);
            ExitCode::from(2)
        }
    }
}

/// One message on standard error. If even that cannot be written there is nobody left to tell.
pub(crate) fn tell(message: &dyn fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{message}");
}

/// A store that ran out of memory forgot keys it should have remembered.
pub(crate) fn warn_if_memory_was_short(stats: Stats, budget_mib: u32) {
    if stats.evicted > 0 || stats.overflowed > 0 {
        tell(&format_args!(
            "warning: {budget_mib} MiB were too few: {} keys were forgotten early and {} requests of keys without room were \
             counted together, so the answers are not exact; use --budget {}",
            stats.evicted,
            stats.overflowed,
            u64::from(budget_mib) * 2,
        ));
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the reader of the output has gone"),
            Self::Output { name, cause } => write!(f, "{name}: could not be written: {cause}"),
            Self::PlotName { file, better } => write!(f, "--plot {file}: plots are SVG; use --plot {better}"),
            Self::Rules(problems) => problems.fmt(f),
            Self::NothingLimited { file } => write!(f, "{file}: no policy limits anything, so there is nothing to ask"),
            Self::WhichPolicy { file, names } => {
                write!(f, "{file}: there are {} policies; choose one with --policy: {}", names.len(), listed(names))
            }
            Self::NoSuchPolicy { file, name, names } => {
                write!(f, "{file}: there is no policy {}; choose one of: {}", shown(name), listed(names))
            }
            Self::Store(error) => write!(f, "--store: {error}; or use memory, which needs no server"),
            Self::Address(error) => error.fmt(f),
            Self::NotReached(why) => why.fmt(f),
            Self::StoreFailed { address, error } => {
                // What could not be reached says itself where; the error around it would say it twice.
                write!(f, "--store {address}: ")?;
                match error {
                    StoreError::Unreachable { cause, .. } => cause.fmt(f),
                    other => other.fmt(f),
                }
            }
            Self::StoreTooSlow { address, rows } => write!(
                f,
                "--store {address}: an hour has passed after {rows} requests, and keys begin to expire there; use a shorter \
                 file, or --store memory"
            ),
            Self::Options(what) => f.write_str(what),
            Self::Option(what) => f.write_str(what),
            Self::Unreadable { file, cause } => match cause.kind() {
                io::ErrorKind::NotFound => write!(f, "{file}: there is no such file"),
                io::ErrorKind::PermissionDenied => write!(f, "{file}: this user may not read it"),
                _ => write!(f, "{file}: could not be read: {cause}"),
            },
            Self::Request { file, line, problem } => write!(f, "{file}:{line}: {problem}"),
            Self::Undecided(error) => error.fmt(f),
            Self::Start(error) => error.fmt(f),
            Self::NoAnswer { server, trouble } => write!(f, "{server}: {trouble}"),
            Self::ServerSaid { server, status, detail } => write!(f, "{server}: {status}: {detail}"),
            Self::NoSuchRequest { file, wanted } => write!(f, "{file}: there is no request {wanted}"),
        }
    }
}

impl fmt::Display for RequestProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const COLUMNS: &str = "the columns are at_ms and key, and optionally cost, max_wait_ms and op";
        match self {
            Self::Empty => write!(f, "the file is empty; it should begin with a header: {COLUMNS}"),
            Self::MissingColumn(column) => write!(f, "the header has no column {column}; {COLUMNS}"),
            Self::UnknownColumn(found) => write!(f, "the header has a column {}; {COLUMNS}", shown(found)),
            Self::ColumnTwice(found) => write!(f, "the header has the column {found} twice; keep one of them"),
            Self::Cells { found, expected } => write!(
                f,
                "{} where the header has {expected}; leave a cell empty for its default, and put quotes around a key \
                 with a comma",
                counted(*found, "cell")
            ),
            Self::TooLong => {
                write!(f, "longer than {MAX_RECORD_BYTES} bytes; is this a requests file, and are all quotes closed?")
            }
            Self::OpenQuote => f.write_str(
                "a quote opens in this row and is never closed, so the rest of the file would be one cell; close it",
            ),
            Self::NoKey => f.write_str("key is empty; say who asks"),
            Self::KeyTooLong { bytes } => {
                write!(f, "key is {bytes} bytes long; {MAX_KEY_BYTES} is the most, so use a digest of it")
            }
            Self::KeyNotText => f.write_str("key is not UTF-8; save the file in that encoding"),
            Self::NoTime => f.write_str("at_ms is empty; say when the request comes, in milliseconds"),
            Self::Time { column, found } => write!(
                f,
                "{column} is {}; write milliseconds with up to 3 decimals, such as 10200 or 10200.125",
                shown(found)
            ),
            Self::TimeTooLate { column, found } => {
                write!(f, "{column} is {}; the most is 4503599627370.495, in the year 2112", shown(found))
            }
            Self::Backwards { at, before } => {
                write!(f, "at_ms is {at}, before the {before} of the request above; sort the file by time")
            }
            Self::Cost { found } => write!(f, "cost is {}; write a whole number, 0 or more", shown(found)),
            Self::CostTooLarge { found } => write!(f, "cost is {}; the most is {MAX_PERMITS}", shown(found)),
            Self::Op { found } => {
                write!(f, "op is {}; use take, peek, refund, settle, penalize, reset or release", shown(found))
            }
            Self::NothingToSettle { key } => write!(
                f,
                "settle for key {}, which has no admitted take left to settle; put the take above it, or remove this line",
                shown(key)
            ),
        }
    }
}

/// `1 cell`, `2 cells`.
pub(crate) fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn listed(names: &[String]) -> String {
    const MOST: usize = 20;
    let mut listed = names.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        listed.push_str(&format!(" and {} more", names.len() - MOST));
    }
    listed
}

/// Somebody's text in quotes: nothing in it can move a terminal's cursor, and no more of it than helps.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 40;
    if text.chars().count() <= MOST {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(MOST).collect();
    format!("{start:?}…")
}

/// Somebody's text as it is, but for what could move a terminal's cursor; lines stay lines.
pub(crate) fn harmless(text: &str) -> String {
    text.split('\n').map(|line| Escaped(line).to_string()).collect::<Vec<_>>().join("\n")
}

/// The beginning of a text, where there is no room for all of it.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// A span as people say it: `900ms`, `5.5s`, `58m 35.5s`, `2d 3h`. Nothing is rounded.
pub(crate) fn span(span: Micros) -> String {
    if span.0 < 1_000 {
        return if span.0 == 0 { "0s".to_owned() } else { format!("{}µs", span.0) };
    }
    if span < Micros::SECOND {
        return format!("{}ms", told_millis(span));
    }
    let mut parts = Vec::new();
    let mut rest = span.0;
    for (size, unit) in [(Micros::DAY.0, "d"), (Micros::HOUR.0, "h"), (Micros::MINUTE.0, "m")] {
        if rest >= size {
            parts.push(format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    if rest > 0 {
        let (seconds, below) = (rest / 1_000_000, format!("{:06}", rest % 1_000_000));
        match below.trim_end_matches('0') {
            "" => parts.push(format!("{seconds}s")),
            below => parts.push(format!("{seconds}.{below}s")),
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_as_people_say_them() {
        let told = |micros| span(Micros(micros));
        assert_eq!(told(0), "0s");
        assert_eq!(told(7), "7µs");
        assert_eq!(told(900_500), "900.5ms");
        assert_eq!(told(5_500_000), "5.5s");
        assert_eq!(told(3_515_500_000), "58m 35.5s");
        assert_eq!(told(86_400_000_000 + 10_800_000_001), "1d 3h 0.000001s");
        assert_eq!(told(3_600_000_000), "1h");
    }

    #[test]
    fn texts_of_others_are_shown_without_their_tricks() {
        assert_eq!(shown("a\u{1b}[2J"), "\"a\\u{1b}[2J\"");
        assert_eq!(shown(&"x".repeat(50)), format!("\"{}\"…", "x".repeat(40)));
        assert_eq!(clipped("policy", 4), "pol…");
        assert_eq!(harmless("a\u{1b}[2J\nb\u{202e}c"), "a\\u{1b}[2J\nb\\u{202e}c");
    }
}
