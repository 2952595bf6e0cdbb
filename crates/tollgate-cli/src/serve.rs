//! `tollgate serve`: the server, told what to do by flags and `TOLLGATE_…` variables.

mod args;
mod files;
mod greeting;
mod logs;
mod traces;

use std::{io, process::ExitCode};

use tokio::signal::unix::{SignalKind, signal};
use tollgate_server::{
    config::ServerConfig,
    server::Server,
    shutdown::{self, Stopper},
};

use self::args::LogFormat;
pub(crate) use self::args::ServeArgs;
use crate::report::{Failure, Outcome};

pub(crate) fn run(args: &ServeArgs) -> Outcome {
    let config = args.config()?;
    logs::start(args)?;
    let ports = [config.http, config.grpc, config.resp, config.admin].iter().flatten().count();
    files::raise((ports * config.bounds.connections + FILES_OF_OUR_OWN) as u64);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(config, args.log_format))
}

async fn serve(config: ServerConfig, format: LogFormat) -> Outcome {
    let (stopper, shutdown) = shutdown::channel();
    // Before the ports are open: whoever sends a signal then must not kill us for want of a handler.
    let mut signals = Signals::new()?;
    let story = config.clone();
    let server = Server::start(config, shutdown).await.map_err(Failure::Start)?;
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
