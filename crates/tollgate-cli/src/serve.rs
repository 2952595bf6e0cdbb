//! `tollgate serve`: the server, told what to do by flags and `TOLLGATE_…` variables.

mod args;
mod files;
mod greeting;
mod logs;
mod traces;

use std::{io, process::ExitCode, time::Duration};

use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
};
use tollgate_server::{
    config::ServerConfig,
    server::Server,
    shutdown::{self, Shutdown, Stopper},
};

use self::args::LogFormat;
pub(crate) use self::args::ServeArgs;
use crate::report::{Failure, Outcome};

pub(crate) fn run(args: &ServeArgs) -> Outcome {
    let config = args.config()?;
    logs::start(args)?;
    files::raise((config.bounds.connections + FILES_OF_OUR_OWN) as u64);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(config, args.log_format));
    // Left alone, a runtime waits for every thread that reads a file, be it one on a mount that never answers.
    runtime.shutdown_timeout(LAST_WAIT);
    outcome
}

async fn serve(config: ServerConfig, format: LogFormat) -> Outcome {
    let (stopper, shutdown) = shutdown::channel();
    // Before the ports are open: whoever sends a signal then must not kill us for want of a handler.
    let mut signals = Signals::new()?;
    let story = config.clone();
    let Some(server) = start(config, shutdown, &mut signals).await? else { return Ok(ExitCode::SUCCESS) };
    // Whoever does not listen to the greeting is served all the same.
    let _ = greeting::print(format, &story, &server);
    let reload = server.reload.clone();
    let mut finished = std::pin::pin!(server.finished());
    loop {
        tokio::select! {
            () = &mut finished => return Ok(ExitCode::SUCCESS),
            signal = signals.next() => match signal {
                Signal::Hup => reload.request(),
                Signal::Stop if stopping(&stopper) => return Ok(ExitCode::FAILURE),
                Signal::Stop => {}
            }
        }
    }
}

/// A start reads files and reaches out to a store, and either may take its time: on a thread of its own, so that signals
/// are heard meanwhile. Nothing if one of them said to stop.
async fn start(config: ServerConfig, shutdown: Shutdown, signals: &mut Signals) -> Result<Option<Server>, Failure> {
    let runtime = Handle::current();
    let mut starting = tokio::task::spawn_blocking(move || runtime.block_on(Server::start(config, shutdown)));
    loop {
        tokio::select! {
            // A server that has started ends in good order.
            biased;
            started = &mut starting => {
                let disorder = |error| Failure::Option(format!("the server could not start: {error}"));
                return started.map_err(disorder)?.map(Some).map_err(Failure::Start);
            }
            signal = signals.next() => match signal {
                // The files are about to be read anyway.
                Signal::Hup => {}
                Signal::Stop => return Ok(None),
            }
        }
    }
}

/// The first word to stop starts the end; the second does not wait for it.
fn stopping(stopper: &Stopper) -> bool {
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

/// Rules, tokens, certificates, the store, and what the runtime needs.
const FILES_OF_OUR_OWN: usize = 64;
/// What is still being read when all requests are answered matters to nobody.
const LAST_WAIT: Duration = Duration::from_millis(500);
