//! `ratekeeper serve`: starts and stops the server.

mod args;
mod files;
mod greeting;
mod logs;
mod notify;
mod traces;

use std::{io, process::ExitCode, time::Duration};

use ratekeeper_server::{
    Reload,
    config::ServerConfig,
    server::Server,
    shutdown::{self, Shutdown, Stopper},
};
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
};

pub(crate) use self::args::ServeArgs;
use self::{args::LogFormat, notify::Notifier};
use crate::report::{CommandResult, Failure};

pub(crate) fn run(args: &ServeArgs) -> CommandResult {
    let config = args.config()?;
    logs::start(args)?;
    files::raise((config.bounds.connections + OTHER_FILES) as u64);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(config, args.log_format));
    // Without a timeout, shutdown waits for every blocking thread, and a read from a dead mount never returns.
    runtime.shutdown_timeout(EXIT_TIMEOUT);
    outcome
}

async fn serve(config: ServerConfig, format: LogFormat) -> CommandResult {
    let (stopper, shutdown) = shutdown::channel();
    // Before the ports are open, so that an early signal finds its handler.
    let mut signals = Signals::new()?;
    let started_with = config.clone();
    let Some(server) = start(config, shutdown, &mut signals).await? else { return Ok(ExitCode::SUCCESS) };
    // A closed standard output does not stop the server.
    let _ = greeting::print(format, &started_with, &server);
    let notifier = Notifier::from_environment();
    notifier.ready(READY);
    let reload = server.reload.clone();
    let mut finished = std::pin::pin!(server.finished());
    loop {
        tokio::select! {
            () = &mut finished => return Ok(ExitCode::SUCCESS),
            signal = signals.next() => match signal {
                Signal::Hup if notifier.is_active() => notify_reload(notifier.clone(), reload.clone()),
                Signal::Hup => reload.request(),
                Signal::Stop if stop_again(&stopper) => return Ok(ExitCode::FAILURE),
                Signal::Stop => notifier.stopping(),
            }
        }
    }
}

/// Starts on a separate thread, because reading files and connecting to a store may block; signals are handled meanwhile.
/// `None` if one of them asked to stop.
async fn start(config: ServerConfig, shutdown: Shutdown, signals: &mut Signals) -> Result<Option<Server>, Failure> {
    let runtime = Handle::current();
    let mut starting = tokio::task::spawn_blocking(move || runtime.block_on(Server::start(config, shutdown)));
    loop {
        tokio::select! {
            // A server that has started is shut down gracefully.
            biased;
            started = &mut starting => {
                let panicked = |error| Failure::Option(format!("the server could not start: {error}"));
                return started.map_err(panicked)?.map(Some).map_err(Failure::Start);
            }
            signal = signals.next() => match signal {
                // The files are being read anyway.
                Signal::Hup => {}
                Signal::Stop => return Ok(None),
            }
        }
    }
}

/// Reloads in the background, with a notification of its begin and its end.
fn notify_reload(notifier: Notifier, reload: Reload) {
    notifier.reloading();
    tokio::spawn(async move {
        let problems = reload.done().await.map_or(0, |reloaded| reloaded.problems.len());
        notifier.ready(if problems == 0 { READY } else { "Serving; a reload failed, see the log" });
    });
}

/// Starts a graceful shutdown; true if one was already in progress, so that the process exits at once.
fn stop_again(stopper: &Stopper) -> bool {
    let again = stopper.shutdown().has_begun();
    stopper.stop();
    again
}

enum Signal {
    Hup,
    Stop,
}

struct Signals {
    hup: tokio::signal::unix::Signal,
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            hup: signal(SignalKind::hangup())?,
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hup.recv() => Signal::Hup,
            _ = self.term.recv() => Signal::Stop,
            _ = self.int.recv() => Signal::Stop,
        }
    }
}

/// The status that `systemctl status` shows.
const READY: &str = "Serving";
/// Open files besides connections: rules, tokens, certificates, the store, the runtime.
const OTHER_FILES: usize = 64;
/// How long blocking file reads may delay the exit after all requests are answered.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
