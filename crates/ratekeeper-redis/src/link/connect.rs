//! Connection setup: TCP, TLS, login, readiness check, client name and clock.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use ratekeeper_core::{Span, Timestamp};
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value, cmd, pipe};
use tokio::{net::TcpStream, time::timeout};

#[cfg(feature = "tls")]
use super::tls;
use super::{
    connection::ServerConnection,
    error::{CallError, NotExecuted},
    outcome::{CallOutcome, ErrorReply},
    settings::LinkSettings,
};
use crate::address::{Address, Credentials, HostPort, TlsFiles};

/// Opens connections to any server of one address.
#[derive(Debug)]
pub(super) struct Connector {
    credentials: Credentials,
    database: u32,
    tls: Option<TlsFiles>,
    connect_timeout: Duration,
    max_in_flight: usize,
    /// Whether to set the client name. Not again once it was refused, which would fill the server's ACL log.
    sets_name: AtomicBool,
}

/// Why no connection was opened. Callers that waited for it have sent nothing, so no outcome is unknown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ConnectError {
    NotExecuted(NotExecuted),
    Refused(ErrorReply),
}

impl ConnectError {
    pub(super) fn unreachable(cause: impl Into<String>) -> Self {
        Self::NotExecuted(NotExecuted::Unreachable { cause: cause.into() })
    }

    /// The error of a call to this address.
    pub(super) fn at(self, address: HostPort) -> CallError {
        match self {
            Self::NotExecuted(why) => CallError::NotExecuted { address, why },
            Self::Refused(ErrorReply { code, message }) => CallError::Refused { address, code, message },
        }
    }
}

impl From<ConnectError> for CallOutcome {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::NotExecuted(why) => Self::NotExecuted(why),
            ConnectError::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotExecuted(why) => why.fmt(f),
            Self::Refused(ErrorReply { code, message }) => write!(f, "{code} {message}"),
        }
    }
}

/// A new connection, and the server's time when it was opened.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) connection: ServerConnection,
    pub(super) time: Option<ServerTime>,
}

/// A server's time, with the instants of the request and of the reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerTime {
    pub(super) server: Timestamp,
    pub(super) asked: Instant,
    pub(super) answered: Instant,
}

impl Connector {
    pub(super) fn new(address: &Address, settings: &LinkSettings) -> Self {
        Self {
            credentials: address.credentials.clone(),
            database: address.database,
            tls: address.tls.clone(),
            connect_timeout: settings.connect_timeout,
            max_in_flight: settings.max_in_flight,
            sets_name: AtomicBool::new(true),
        }
    }

    /// A connector for sentinels, which have separate credentials and no databases.
    pub(super) fn for_sentinels(address: &Address, credentials: Credentials, settings: &LinkSettings) -> Self {
        Self { credentials, database: 0, ..Self::new(address, settings) }
    }

    /// Connects, logs in and checks that the server is ready.
    pub(super) async fn connect(&self, address: &HostPort) -> Result<Connected, ConnectError> {
        timeout(self.connect_timeout, self.open(address)).await.unwrap_or_else(|_| Err(self.timed_out()))
    }

    /// Waits for a reply, at most as long as for a connection.
    pub(super) async fn with_timeout(
        &self,
        reply: impl Future<Output = RedisResult<Value>>,
    ) -> Result<Value, ConnectError> {
        let reply = timeout(self.connect_timeout, reply).await.map_err(|_| self.timed_out())?;
        reply.map_err(lost)
    }

    fn timed_out(&self) -> ConnectError {
        ConnectError::unreachable(format!("no answer within {:?}", self.connect_timeout))
    }

    async fn open(&self, address: &HostPort) -> Result<Connected, ConnectError> {
        let connection = self.open_stream(address).await?;
        self.log_in(&connection).await?;
        check_ready(ask(&connection, &cmd("PING")).await?)?;
        self.introduce(connection).await
    }

    async fn open_stream(&self, address: &HostPort) -> Result<ServerConnection, ConnectError> {
        let stream = TcpStream::connect((&*address.host, address.port))
            .await
            .map_err(|error| ConnectError::unreachable(error.to_string()))?;
        // Requests are small and must not wait for Nagle's algorithm.
        stream.set_nodelay(true).map_err(|error| ConnectError::unreachable(error.to_string()))?;
        let connection = match &self.tls {
            None => ServerConnection::over(stream, address.clone(), self.max_in_flight).await,
            #[cfg(feature = "tls")]
            Some(files) => {
                let stream = tls::handshake(files, address, stream).await.map_err(ConnectError::unreachable)?;
                ServerConnection::over(stream, address.clone(), self.max_in_flight).await
            }
            // Unreachable: `Address::parse` refuses `rediss://` in builds without TLS.
            #[cfg(not(feature = "tls"))]
            Some(_) => return Err(ConnectError::unreachable("this build has no TLS")),
        };
        connection.map_err(lost)
    }

    async fn log_in(&self, connection: &ServerConnection) -> Result<(), ConnectError> {
        if let Some(password) = &self.credentials.password {
            let mut login = cmd("AUTH");
            if let Some(user) = &self.credentials.user {
                login.arg(user);
            }
            accepted(ask(connection, login.arg(password)).await?).map_err(without_arguments)?;
        }
        if self.database != 0 {
            accepted(ask(connection, cmd("SELECT").arg(self.database)).await?)?;
        }
        Ok(())
    }

    /// Reads the server's time and sets the client name. Errors in these replies do not fail the connection.
    async fn introduce(&self, connection: ServerConnection) -> Result<Connected, ConnectError> {
        let mut commands = pipe();
        commands.cmd("TIME");
        if self.sets_name.load(Ordering::Relaxed) {
            commands.cmd("CLIENT").arg("SETNAME").arg("ratekeeper");
            commands.cmd("CLIENT").arg("SETINFO").arg("LIB-NAME").arg("ratekeeper");
            commands.cmd("CLIENT").arg("SETINFO").arg("LIB-VER").arg(env!("CARGO_PKG_VERSION"));
        }
        let asked = Instant::now();
        let replies = connection.ask_all(&commands).await.map_err(lost)?;
        let answered = Instant::now();
        let time = replies.first().and_then(read_time).map(|server| ServerTime { server, asked, answered });
        let is_refused = |reply: &Value| matches!(reply, Value::ServerError(error) if error.code() == "NOPERM");
        if replies.iter().skip(1).any(is_refused) {
            self.sets_name.store(false, Ordering::Relaxed);
        }
        Ok(Connected { connection, time })
    }
}

/// Health check: whether the server is ready, and its time.
pub(super) async fn probe(connection: &ServerConnection) -> Result<Option<ServerTime>, ConnectError> {
    let asked = Instant::now();
    let mut commands = Pipeline::with_capacity(2);
    commands.cmd("PING").cmd("TIME");
    let replies = connection.ask_all(&commands).await.map_err(lost)?;
    let answered = Instant::now();
    let [ping, time] = replies.as_slice() else { return Err(ConnectError::unreachable("it answered out of turn")) };
    check_ready(CallOutcome::of(Ok(ping.clone()), asked))?;
    Ok(read_time(time).map(|server| ServerTime { server, asked, answered }))
}

async fn ask(connection: &ServerConnection, command: &Cmd) -> Result<CallOutcome, ConnectError> {
    let asked = Instant::now();
    let reply = connection.ask(command, false).await.map_err(lost)?;
    Ok(CallOutcome::of(Ok(reply), asked))
}

/// Reads the reply to `PING`. A server that is loading, busy or wants a login replies to it as it would to any call.
fn check_ready(pong: CallOutcome) -> Result<(), ConnectError> {
    match pong {
        // A user without the right to `PING` has a server that answers.
        CallOutcome::Refused(refusal) if refusal.code == "NOPERM" => Ok(()),
        CallOutcome::NotExecuted(why) if !why.is_unhealthy() && why != NotExecuted::TooManyClients => Ok(()),
        other => accepted(other),
    }
}

fn accepted(outcome: CallOutcome) -> Result<(), ConnectError> {
    match outcome {
        CallOutcome::Answered(_) => Ok(()),
        CallOutcome::NotExecuted(why) => Err(ConnectError::NotExecuted(why)),
        CallOutcome::Refused(refusal) => Err(ConnectError::Refused(refusal)),
        CallOutcome::Unknown { .. } | CallOutcome::NoScript | CallOutcome::Redirected(_) => {
            Err(ConnectError::unreachable("it answered out of turn"))
        }
    }
}

/// A server that does not know a command echoes its arguments, and those of AUTH are secret.
fn without_arguments(error: ConnectError) -> ConnectError {
    match error {
        ConnectError::Refused(ErrorReply { code, message }) => {
            let kept = message.split(", with args").next().unwrap_or_default().into();
            ConnectError::Refused(ErrorReply { code, message: kept })
        }
        other => other,
    }
}

fn lost(error: RedisError) -> ConnectError {
    ConnectError::unreachable(format!("the connection was lost: {error}"))
}

/// Reads the reply to `TIME`: seconds and microseconds, as text.
fn read_time(reply: &Value) -> Option<Timestamp> {
    let Value::Array(parts) = reply else { return None };
    let number = |part: &Value| match part {
        Value::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse::<u64>().ok(),
        _ => None,
    };
    let [seconds, micros] = parts.as_slice() else { return None };
    Some(Timestamp::from_secs(number(seconds)?) + Span::from_micros(number(micros)?))
}
