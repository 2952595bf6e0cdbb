//! From a place to a connection that is ready for questions: TCP, TLS, login, and a first word.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use redis::{Cmd, Pipeline, RedisError, RedisResult, Value, cmd, pipe};
use tokio::{net::TcpStream, time::timeout};
use tollgate_core::Micros;

use super::{
    error::NotRun,
    fate::{Fate, Refusal},
    settings::LinkSettings,
    tls,
    wire::Wire,
};
use crate::address::{Address, Credentials, HostPort, TlsFiles};

/// Knows how to get in at any server of one address.
#[derive(Debug)]
pub(super) struct Dialer {
    credentials: Credentials,
    database: u32,
    tls: Option<TlsFiles>,
    connect_timeout: Duration,
    max_in_flight: usize,
    /// Whether to give our name. Not a second time where that is forbidden: it would fill the server's ACL log.
    gives_name: AtomicBool,
}

/// Why no connection came about. Whoever waited for it has sent nothing, so no fate is unknown here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum DialError {
    NotRun(NotRun),
    Refused(Refusal),
}

impl DialError {
    pub(super) fn unreachable(cause: impl Into<String>) -> Self {
        Self::NotRun(NotRun::Unreachable { cause: cause.into() })
    }
}

impl From<DialError> for Fate {
    fn from(error: DialError) -> Self {
        match error {
            DialError::NotRun(why) => Self::NotRun(why),
            DialError::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun(why) => why.fmt(f),
            Self::Refused(Refusal { code, message }) => write!(f, "{code} {message}"),
        }
    }
}

/// A connection, and what the server's clock showed when it was made.
#[derive(Debug)]
pub(super) struct Greeted {
    pub(super) wire: Wire,
    pub(super) time: Option<Told>,
}

/// A server's time, and when it was asked and told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) server: Micros,
    pub(super) asked: Instant,
    pub(super) answered: Instant,
}

impl Dialer {
    pub(super) fn new(address: &Address, settings: &LinkSettings) -> Self {
        Self {
            credentials: address.credentials.clone(),
            database: address.database,
            tls: address.tls.clone(),
            connect_timeout: settings.connect_timeout,
            max_in_flight: settings.max_in_flight,
            gives_name: AtomicBool::new(true),
        }
    }

    /// The same for sentinels, which have users of their own and no databases.
    pub(super) fn for_sentinels(address: &Address, credentials: Credentials, settings: &LinkSettings) -> Self {
        Self { credentials, database: 0, ..Self::new(address, settings) }
    }

    /// Connects, logs in and finds out whether the server is well.
    pub(super) async fn dial(&self, place: &HostPort) -> Result<Greeted, DialError> {
        timeout(self.connect_timeout, self.get_in(place)).await.unwrap_or_else(|_| Err(self.too_slow()))
    }

    /// Waits for an answer no longer than for a connection.
    pub(super) async fn within_patience(
        &self,
        answer: impl Future<Output = RedisResult<Value>>,
    ) -> Result<Value, DialError> {
        let answer = timeout(self.connect_timeout, answer).await.map_err(|_| self.too_slow())?;
        answer.map_err(lost)
    }

    fn too_slow(&self) -> DialError {
        DialError::unreachable(format!("no answer within {:?}", self.connect_timeout))
    }

    async fn get_in(&self, place: &HostPort) -> Result<Greeted, DialError> {
        let wire = self.connect(place).await?;
        self.log_in(&wire).await?;
        is_well(ask(&wire, &cmd("PING")).await?)?;
        self.introduce(wire).await
    }

    async fn connect(&self, place: &HostPort) -> Result<Wire, DialError> {
        let stream = TcpStream::connect((&*place.host, place.port))
            .await
            .map_err(|error| DialError::unreachable(error.to_string()))?;
        // Questions are small and must not wait for company.
        stream.set_nodelay(true).map_err(|error| DialError::unreachable(error.to_string()))?;
        let wire = match &self.tls {
            None => Wire::over(stream, place.clone(), self.max_in_flight).await,
            Some(files) => {
                let stream = tls::shake_hands(files, place, stream).await.map_err(DialError::unreachable)?;
                Wire::over(stream, place.clone(), self.max_in_flight).await
            }
        };
        wire.map_err(lost)
    }

    async fn log_in(&self, wire: &Wire) -> Result<(), DialError> {
        if let Some(password) = &self.credentials.password {
            let mut login = cmd("AUTH");
            if let Some(user) = &self.credentials.user {
                login.arg(user);
            }
            accepted(ask(wire, login.arg(password)).await?).map_err(without_arguments)?;
        }
        if self.database != 0 {
            accepted(ask(wire, cmd("SELECT").arg(self.database)).await?)?;
        }
        Ok(())
    }

    /// Says who we are and asks for the time. None of it is needed, so none of it may fail the connection.
    async fn introduce(&self, wire: Wire) -> Result<Greeted, DialError> {
        let mut questions = pipe();
        questions.cmd("TIME");
        if self.gives_name.load(Ordering::Relaxed) {
            questions.cmd("CLIENT").arg("SETNAME").arg("tollgate");
            questions.cmd("CLIENT").arg("SETINFO").arg("LIB-NAME").arg("tollgate");
            questions.cmd("CLIENT").arg("SETINFO").arg("LIB-VER").arg(env!("CARGO_PKG_VERSION"));
        }
        let asked = Instant::now();
        let answers = wire.ask_all(&questions).await.map_err(lost)?;
        let answered = Instant::now();
        let time = answers.first().and_then(read_time).map(|server| Told { server, asked, answered });
        if answers.iter().skip(1).any(|answer| matches!(answer, Value::ServerError(error) if error.code() == "NOPERM"))
        {
            self.gives_name.store(false, Ordering::Relaxed);
        }
        Ok(Greeted { wire, time })
    }
}

/// Asks a server how it is: whether it is well, and what time it has.
pub(super) async fn probe(wire: &Wire) -> Result<Option<Told>, DialError> {
    let asked = Instant::now();
    let mut questions = Pipeline::with_capacity(2);
    questions.cmd("PING").cmd("TIME");
    let answers = wire.ask_all(&questions).await.map_err(lost)?;
    let answered = Instant::now();
    let [ping, time] = answers.as_slice() else { return Err(DialError::unreachable("it answered out of turn")) };
    is_well(Fate::of(Ok(ping.clone()), asked))?;
    Ok(read_time(time).map(|server| Told { server, asked, answered }))
}

async fn ask(wire: &Wire, command: &Cmd) -> Result<Fate, DialError> {
    let asked = Instant::now();
    let reply = wire.ask(command, false).await.map_err(lost)?;
    Ok(Fate::of(Ok(reply), asked))
}

/// What a server says to `PING` while loading, while busy, before a login: that is what callers would hear, too.
fn is_well(pong: Fate) -> Result<(), DialError> {
    match pong {
        // Whoever may not ask has been answered all the same.
        Fate::Refused(refusal) if refusal.code == "NOPERM" => Ok(()),
        Fate::NotRun(why) if !why.is_sick() && why != NotRun::TooManyClients => Ok(()),
        other => accepted(other),
    }
}

fn accepted(fate: Fate) -> Result<(), DialError> {
    match fate {
        Fate::Answered(_) => Ok(()),
        Fate::NotRun(why) => Err(DialError::NotRun(why)),
        Fate::Refused(refusal) => Err(DialError::Refused(refusal)),
        Fate::Unknown { .. } | Fate::NoScript | Fate::Elsewhere(_) => {
            Err(DialError::unreachable("it answered out of turn"))
        }
    }
}

/// A server that does not know a command repeats its arguments, and those of AUTH are secret.
fn without_arguments(error: DialError) -> DialError {
    match error {
        DialError::Refused(Refusal { code, message }) => {
            let kept = message.split(", with args").next().unwrap_or_default().into();
            DialError::Refused(Refusal { code, message: kept })
        }
        other => other,
    }
}

fn lost(error: RedisError) -> DialError {
    DialError::unreachable(format!("the connection was lost: {error}"))
}

/// Seconds and microseconds, as text.
fn read_time(answer: &Value) -> Option<Micros> {
    let Value::Array(parts) = answer else { return None };
    let number = |part: &Value| match part {
        Value::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse::<u64>().ok(),
        _ => None,
    };
    let [seconds, micros] = parts.as_slice() else { return None };
    Some(Micros::from_secs(number(seconds)?) + Micros(number(micros)?))
}
