//! Errors in requests files, with their messages.

use std::fmt;

use ratekeeper_core::{
    RequestIdError,
    bounds::{MAX_KEY_BYTES, MAX_PERMITS},
};

use super::text::{counted, shown};

/// An error in a line of the requests file.
#[derive(Debug)]
pub(crate) enum RequestProblem {
    Empty,
    MissingColumn(&'static str),
    UnknownColumn(String),
    ColumnTwice(String),
    KeyAndEntries,
    EntriesHere,
    NoEntry,
    Cells { found: usize, expected: usize },
    TooLong { max: u64 },
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
    NoId { op: String },
    Id { error: RequestIdError },
    OnExpiry { found: String },
    NothingToSettle { key: String },
}

impl fmt::Display for RequestProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const COLUMNS: &str = "the columns are at_ms and key, and optionally cost, max_wait_ms, op, id, lifetime_ms, \
             on_expiry and at_least";
        match self {
            Self::Empty => write!(f, "the file is empty; it should begin with a header: {COLUMNS}"),
            Self::MissingColumn(column) => write!(f, "the header has no column {column}; {COLUMNS}"),
            Self::UnknownColumn(found) => write!(f, "the header has a column {}; {COLUMNS}", shown(found)),
            Self::ColumnTwice(found) => write!(f, "the header has the column {found} twice; keep one of them"),
            Self::KeyAndEntries => f.write_str(
                "the header has a column key and entry: columns; keep the key, or the entries that the rules match",
            ),
            Self::EntriesHere => f.write_str(
                "the header has entry: columns, which simulate reads without --compare; use a column key here",
            ),
            Self::NoEntry => f.write_str("every entry of the row is empty; give it a value that the rules match"),
            Self::Cells { found, expected } => write!(
                f,
                "{} where the header has {expected}; leave a cell empty for its default, and put quotes around a key \
                 with a comma",
                counted(*found, "cell")
            ),
            Self::TooLong { max } => {
                write!(f, "longer than {max} bytes; is this a requests file, and are all quotes closed?")
            }
            Self::OpenQuote => f.write_str(
                "a quote opens in this row and is never closed, so the rest of the file would be one cell; close it",
            ),
            Self::NoKey => f.write_str("key is empty; write the key of the request"),
            Self::KeyTooLong { bytes } => {
                write!(f, "key is {bytes} bytes long; {MAX_KEY_BYTES} is the most, so use a digest of it")
            }
            Self::KeyNotText => f.write_str("key is not UTF-8; save the file in that encoding"),
            Self::NoTime => f.write_str("at_ms is empty; write the time of the request, in milliseconds"),
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
                write!(
                    f,
                    "op is {}; use take, peek, refund, settle, penalize, reset, release, reserve, commit or cancel",
                    shown(found)
                )
            }
            Self::NoId { op } => write!(f, "{} needs the column id, which names the request", shown(op)),
            Self::Id { error } => write!(f, "id: {error}"),
            Self::OnExpiry { found } => write!(f, "on_expiry is {}; write keep or refund", shown(found)),
            Self::NothingToSettle { key } => write!(
                f,
                "settle for key {}, which has no admitted take left to settle; put the take above it, or remove this line",
                shown(key)
            ),
        }
    }
}
