//! Probe of one server: plain commands over a separate connection, with a timeout.

use std::{
    fmt,
    time::{Duration, Instant},
};

use ratekeeper_redis::{
    Address,
    link::{Call, CallError, Destination, HostPort, Link, LinkSettings},
};
use redis::{Cmd, Value, cmd};

/// A connection to one server of an address.
#[derive(Debug)]
pub(super) struct Probe {
    link: Link,
}

/// Why a command has no reply.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ProbeError {
    /// The account lacks the permission.
    Denied(String),
    /// The server answered with an error.
    Refused { code: String, message: String },
    /// Not executed, or no reply; with the cause.
    NotDone(String),
}

impl Probe {
    /// Connects to one server, with the credentials of the address.
    pub(super) fn to(address: &Address, server: &HostPort) -> Self {
        Self::open(address.at_server(server))
    }

    /// Connects to one sentinel, with the credentials that the address has for sentinels.
    pub(super) fn to_sentinel(address: &Address, sentinel: &HostPort) -> Self {
        Self::open(address.at_sentinel(sentinel))
    }

    fn open(address: Address) -> Self {
        let mut settings = LinkSettings::default();
        (settings.deadline, settings.connect_timeout) = (TIMEOUT, TIMEOUT);
        Self { link: Link::open(address, settings) }
    }

    /// Sends a command of words.
    pub(super) async fn ask(&self, words: &[&str]) -> Result<Value, ProbeError> {
        let Some((name, rest)) = words.split_first() else { return Ok(Value::Nil) };
        let mut command = cmd(name);
        rest.iter().for_each(|word| {
            command.arg(*word);
        });
        self.send(&command).await
    }

    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, ProbeError> {
        Ok(self.link.command(Destination::Any, command, deadline()).await?)
    }

    /// Runs a script as the store does.
    pub(super) async fn run(&self, call: Call<'_>) -> Result<Value, ProbeError> {
        Ok(self.link.call(call).await?)
    }
}

/// The deadline of a command that is sent now.
pub(super) fn deadline() -> Instant {
    Instant::now() + TIMEOUT
}

impl From<CallError> for ProbeError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused { code, message, .. } if code == "NOPERM" => Self::Denied(message),
            CallError::Refused { code, message, .. } => Self::Refused { code, message },
            CallError::NotExecuted { why, .. } => Self::NotDone(why.to_string()),
            CallError::Unknown { waited, .. } => Self::NotDone(format!("no reply for {waited:.0?}")),
            other => Self::NotDone(other.to_string()),
        }
    }
}

impl ProbeError {
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

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(message) => write!(f, "NOPERM {message}"),
            Self::Refused { code, message } => {
                write!(f, "{code} {message}")?;
                match code.as_str() {
                    "WRONGPASS" => f.write_str("; check the user and the password in the address"),
                    "NOAUTH" => f.write_str("; put the password into the address: redis://:password@host"),
                    _ => Ok(()),
                }
            }
            Self::NotDone(why) => f.write_str(why),
        }
    }
}

/// A value as text; `None` if it has no text form.
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

/// The items of a list; empty if it is not one.
pub(super) fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => &[],
    }
}

/// Alternating names and values of a list.
pub(super) fn pairs(value: &Value) -> impl Iterator<Item = (String, String)> {
    items(value).chunks_exact(2).filter_map(|pair| Some((text(&pair[0])?, text(&pair[1])?)))
}

/// Far above the latency that a store for limits may have.
const TIMEOUT: Duration = Duration::from_secs(3);
