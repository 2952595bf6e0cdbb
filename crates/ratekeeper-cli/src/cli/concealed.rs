//! Argument errors without the secrets that a mistyped argument may contain.
//!
//! clap quotes the invalid value. An address may contain a password before its last `@`, so a quoted value is shortened to
//! what follows it.

use clap::{
    Parser,
    error::{ContextKind, ContextValue},
};

use super::Cli;

/// Parses the command line, or exits with a message.
pub(crate) fn read() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| conceal(error).exit())
}

fn conceal(mut error: clap::Error) -> clap::Error {
    let shorter: Vec<(ContextKind, Option<ContextValue>)> = error.context().filter_map(shortened).collect();
    for (kind, value) in shorter {
        match value {
            Some(value) => drop(error.insert(kind, value)),
            None => drop(error.remove(kind)),
        }
    }
    error
}

/// Replaces a value that contains `@`; drops suggestions that repeat one.
fn shortened((kind, value): (ContextKind, &ContextValue)) -> Option<(ContextKind, Option<ContextValue>)> {
    let short = |text: &str| text.rsplit_once('@').map(|(_, after)| format!("…@{after}"));
    let new = match value {
        ContextValue::String(text) => Some(ContextValue::String(short(text)?)),
        ContextValue::Strings(texts) if texts.iter().any(|text| text.contains('@')) => {
            let texts = texts.iter().map(|text| short(text).unwrap_or_else(|| text.clone()));
            Some(ContextValue::Strings(texts.collect()))
        }
        ContextValue::StyledStr(text) if text.to_string().contains('@') => None,
        ContextValue::StyledStrs(texts) if texts.iter().any(|text| text.to_string().contains('@')) => None,
        _ => return None,
    };
    Some((kind, new))
}
