//! The port: takes connections, within a bound, and lets each be served.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
};

use super::{
    connection::{self, End},
    session::Session,
    settings::RespSettings,
};
use crate::{engine::Engine, telemetry::Wire};

/// Serves RESP on this listener until `shutdown` turns true; then commands that have arrived are answered, and all
/// connections closed.
pub async fn serve(listener: TcpListener, engine: Engine, settings: RespSettings, mut shutdown: watch::Receiver<bool>) {
    let settings = Arc::new(settings);
    let places = Arc::new(Semaphore::new(settings.max_connections));
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = shutdown.wait_for(|&down| down) => break,
            Some(_) = open.join_next() => continue,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: others have to leave before one can come.
                tracing::warn!(%error, "a RESP connection could not be taken");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                open.spawn(client(stream, engine.clone(), Arc::clone(&settings), shutdown.clone(), place));
            }
            Err(_) => turn_away(&stream, &engine),
        }
    }
    while open.join_next().await.is_some() {}
}

async fn client(
    stream: TcpStream,
    engine: Engine,
    settings: Arc<RespSettings>,
    mut shutdown: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let _ = stream.set_nodelay(true);
    let telemetry = engine.clone();
    let connections = telemetry.telemetry().connections.get_or_create(&Wire::Resp.label()).clone();
    connections.inc();
    let session = Session::new(engine, NEXT.fetch_add(1, Ordering::Relaxed));
    let ending = async {
        let _ = shutdown.wait_for(|&down| down).await;
    };
    match connection::serve(stream, session, &settings, ending).await {
        Ok(End::Malformed(what)) => {
            telemetry.telemetry().bad_requests.get_or_create(&Wire::Resp.label()).inc();
            tracing::debug!(%what, "a RESP client broke the protocol");
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        Err(error) => tracing::debug!(%error, "a RESP connection was lost"),
    }
    connections.dec();
}

/// Says why, if that can be said without waiting.
fn turn_away(stream: &TcpStream, engine: &Engine) {
    engine.telemetry().refused_connections.get_or_create(&Wire::Resp.label()).inc();
    let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
}
