//! One server, asked plainly.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use redis::{Cmd, Value, cmd};

use crate::{
    address::{Address, HostPort, Topology},
    counters::Counters,
    link::{Call, CallError, Link, LinkSettings, Whom},
};

/// A connection to one server of an address, whatever the servers are to each other.
#[derive(Debug)]
pub(super) struct Visit {
    link: Link,
}

/// Why a question brought no answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Trouble {
    /// The account may not ask this.
    Denied(String),
    /// The server answered with an error.
    Refused { code: String, message: String },
    /// Not carried out, or not answered; why, in words.
    NotDone(String),
}

impl Visit {
    /// Dials one server with the address's own credentials.
    pub(super) fn to(address: &Address, place: &HostPort) -> Self {
        let address = Address { topology: Topology::Standalone(place.clone()), ..address.clone() };
        let mut settings = LinkSettings::default();
        (settings.deadline, settings.connect_timeout) = (PATIENCE, PATIENCE);
        Self { link: Link::open(address, settings, Arc::new(Counters::default())) }
    }

    /// Asks in plain words.
    pub(super) async fn ask(&self, words: &[&str]) -> Result<Value, Trouble> {
        let Some((name, rest)) = words.split_first() else { return Ok(Value::Nil) };
        let mut command = cmd(name);
        rest.iter().for_each(|word| {
            command.arg(*word);
        });
        self.send(&command).await
    }

    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Trouble> {
        Ok(self.link.command(Whom::Any, command, deadline()).await?)
    }

    /// Runs a script as the store does.
    pub(super) async fn run(&self, call: Call<'_>) -> Result<Value, Trouble> {
        Ok(self.link.call(call).await?)
    }
}

/// Until when an answer is waited for.
pub(super) fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

impl From<CallError> for Trouble {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused { code, message, .. } if code == "NOPERM" => Self::Denied(message),
            CallError::Refused { code, message, .. } => Self::Refused { code, message },
            CallError::NotRun { why, .. } => Self::NotDone(why.to_string()),
            CallError::Unknown { waited, .. } => Self::NotDone(format!("no answer for {waited:.0?}")),
        }
    }
}

impl Trouble {
    pub(super) fn is_denied(&self) -> bool {
        matches!(self, Self::Denied(_))
    }

    /// The error's first word, such as `MOVED`.
    pub(super) fn code(&self) -> &str {
        match self {
            Self::Denied(_) => "NOPERM",
            Self::Refused { code, .. } => code,
            Self::NotDone(_) => "",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(message) => write!(f, "NOPERM {message}"),
            Self::Refused { code, message } => {
                write!(f, "{code} {message}")?;
                match code.as_str() {
                    "WRONGPASS" => f.write_str("; look at the user and the password in the address"),
                    "NOAUTH" => f.write_str("; put the password into the address: redis://:password@host"),
                    _ => Ok(()),
                }
            }
            Self::NotDone(why) => f.write_str(why),
        }
    }
}

/// A value in words, as far as it has any.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(words) => Some(words.clone()),
        Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        Value::Okay => Some("OK".to_owned()),
        _ => None,
    }
}

/// The items of a list; none if it is no list.
pub(super) fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => &[],
    }
}

/// Names and values that follow each other in a list.
pub(super) fn pairs(value: &Value) -> impl Iterator<Item = (String, String)> {
    items(value).chunks_exact(2).filter_map(|pair| Some((text(&pair[0])?, text(&pair[1])?)))
}

/// Longer than any server that limits could rely on would take.
const PATIENCE: Duration = Duration::from_secs(3);
