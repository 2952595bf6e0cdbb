//! Server lifecycle: startup from a configuration, serving, graceful shutdown.

mod exposure;

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use ratekeeper_core::Store;
use ratekeeper_rules::{Problems, read_paths};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use self::exposure::{ExposedPort, exposed_ports};
use crate::{
    admin::Admin,
    config::ServerConfig,
    engine::{Engine, LoadError},
    grpc::Grpc,
    health::Health,
    http::{Guard, Http},
    listen::{ListenError, Listener},
    resp::Resp,
    sample::sample_rules,
    security::{Access, RequiredSecret, Tls, TlsError, TokenError, Tokens},
    shutdown::{self, Shutdown},
    telemetry::{Telemetry, TraceError, Wire},
    watch::{FileWatcher, Files, Reload},
    wiring::{OpenStoreError, charge_local_grants, open_store},
};

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The rule files have errors.
    #[error("{0}")]
    Rules(Problems),
    /// The rules could not be loaded.
    #[error("{0}")]
    Load(LoadError),
    /// The address of the store cannot be used.
    #[error("--store: {0}")]
    Store(OpenStoreError),
    /// A port cannot be bound.
    #[error("{0}")]
    Listen(#[from] ListenError),
    /// A certificate cannot be used.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The tokens cannot be used.
    #[error("{0}")]
    Tokens(#[from] TokenError),
    /// Tracing cannot start.
    #[error("--otel: {0}")]
    Traces(#[from] TraceError),
    /// The decision log cannot be opened.
    #[error("--decision-log {}: {error}", file.display())]
    DecisionLog {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// An I/O error.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// The engine of all wires.
    pub engine: Engine,
    /// The bound addresses.
    pub addresses: Addresses,
    /// Requests a reload of the files.
    pub reload: Reload,
    work: JoinHandle<()>,
}

/// The addresses that a server is bound to. A configured port 0 is replaced by the assigned one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    /// The HTTP port.
    pub http: Option<SocketAddr>,
    /// The gRPC port.
    pub grpc: Option<SocketAddr>,
    /// The RESP port.
    pub resp: Option<SocketAddr>,
    /// The admin port.
    pub admin: Option<SocketAddr>,
}

impl Server {
    /// Reads the rules, opens the store and binds the ports. Connections are accepted when this returns. The server
    /// stops when `shutdown` begins; [`finished`](Self::finished) waits for the end.
    pub async fn start(config: ServerConfig, shutdown: Shutdown) -> Result<Self, StartError> {
        let files = Files {
            rules: config.rules.clone(),
            tokens: config.tokens.clone(),
            admin_token: config.admin_token_file.clone(),
            auth_secret: config.auth_secret_file.clone(),
            tls: config.tls.clone(),
        };
        let before = files.snapshot();
        let rules = if config.rules.is_empty() { sample_rules() } else { read_paths(&config.rules) };
        let rules = rules.map_err(StartError::Rules)?;
        let access = match &config.tokens {
            Some(file) => Access::by(Tokens::read(file)?),
            None => Access::open(),
        };
        let store = open_store(config.store.expose(), &config.storage).await.map_err(StartError::Store)?;
        let mut telemetry = Telemetry::default();
        telemetry.watch_store(store.clone(), config.storage.memory_bytes);
        if let Some(traces) = &config.traces {
            match telemetry.trace_to(traces) {
                Err(error) if !traces.is_wanted => tracing::warn!("traces are disabled: {error}"),
                started => started?,
            }
        }
        if let Some(log) = &config.decision_log {
            let file = || log.file.clone();
            telemetry.log_decisions(log).map_err(|error| StartError::DecisionLog { file: file(), error })?;
        }
        let telemetry = Arc::new(telemetry);
        let engine = Engine::new(store, Arc::clone(&telemetry));
        engine.carry(config.carry);
        engine.envoy_counts_refused(config.envoy_counts_refused);
        engine.load(Ok(rules)).map_err(StartError::Load)?;

        let ports = Ports::bind_all(&config, &telemetry).await?;
        let addresses = ports.addresses()?;
        for ExposedPort { wire, address, warning } in exposed_ports(&config, &addresses, access.is_open()) {
            tracing::warn!(wire, %address, "{warning}");
        }
        let health = Health::new(engine.clone());
        let admin_token = RequiredSecret::new(config.admin_token.clone());
        let watcher = FileWatcher {
            files,
            engine: engine.clone(),
            health: health.clone(),
            access: access.clone(),
            admin_token: admin_token.clone(),
            auth_secret: config.auth.secret.clone(),
            tls: ports.tls.clone(),
        };
        let reload = watcher.start(before, config.poll_interval, shutdown.clone());
        let guard = guard_at(addresses.admin, &config);
        let admin = Admin::new(engine.clone(), health.clone(), reload.clone(), admin_token, guard);
        let work = tokio::spawn(work(config, ports, engine.clone(), access, health, admin, shutdown));
        Ok(Self { engine, addresses, reload, work })
    }

    /// Waits until the server has stopped: in-flight requests are finished or the drain timeout has passed.
    pub async fn finished(self) {
        if let Err(error) = self.work.await {
            tracing::error!(%error, "the server task failed");
        }
    }
}

/// The listeners. All ports are bound before any is served; if one fails, none is served.
struct Ports {
    http: Option<Listener>,
    grpc: Option<Listener>,
    resp: Option<Listener>,
    admin: Option<Listener>,
    tls: Vec<Tls>,
}

impl Ports {
    /// Binds the configured ports.
    async fn bind_all(config: &ServerConfig, telemetry: &Arc<Telemetry>) -> Result<Self, StartError> {
        let mut tls = Vec::new();
        let mut tls_for = |alpn: &[&str]| -> Result<Option<Tls>, TlsError> {
            let Some(files) = &config.tls else { return Ok(None) };
            let one = Tls::read(files, alpn)?;
            tls.push(one.clone());
            Ok(Some(one))
        };
        let web = tls_for(&["h2", "http/1.1"])?;
        let h2 = tls_for(&["h2"])?;
        let bare = tls_for(&[])?;
        let bind = async |wire, address: Option<SocketAddr>, tls: Option<Tls>| match address {
            Some(address) => Listener::bind(wire, address, tls, config.bounds, Arc::clone(telemetry)).await.map(Some),
            None => Ok(None),
        };
        let http = bind(Wire::Http, config.http, web.clone()).await?;
        let grpc = bind(Wire::Grpc, config.grpc, h2).await?;
        let resp = bind(Wire::Resp, config.resp, bare).await?;
        let admin = bind(Wire::Admin, config.admin, web.filter(|_| config.admin_tls)).await?;
        Ok(Self { http, grpc, resp, admin, tls })
    }

    fn addresses(&self) -> io::Result<Addresses> {
        let of = |listener: &Option<Listener>| listener.as_ref().map(Listener::address).transpose();
        Ok(Addresses { http: of(&self.http)?, grpc: of(&self.grpc)?, resp: of(&self.resp)?, admin: of(&self.admin)? })
    }
}

/// The browser guard of the port that is bound to this address.
fn guard_at(bound: Option<SocketAddr>, config: &ServerConfig) -> Guard {
    bound.map(|bound| Guard::new(bound, config.allowed_hosts.clone())).unwrap_or_default()
}

/// Serves until shutdown, then drains. The admin port stops last, so that metrics and health checks work while the data
/// ports drain.
async fn work(
    config: ServerConfig,
    ports: Ports,
    engine: Engine,
    access: Access,
    health: Health,
    admin: Admin,
    mut shutdown: Shutdown,
) {
    let (stop_data, data_shutdown) = shutdown::channel();
    let (stop_admin, admin_shutdown) = shutdown::channel();
    let mut wires = JoinSet::new();
    if let Some(listener) = ports.http {
        let guard = guard_at(listener.address().ok(), &config);
        let http = Http::new(engine.clone(), access.clone(), config.headers, config.auth.clone(), guard);
        wires.spawn(http.serve(listener, data_shutdown.clone()));
    }
    if let Some(listener) = ports.grpc {
        let grpc = Grpc::new(engine.clone(), access.clone(), config.headers, health.clone());
        wires.spawn(grpc.serve(listener, data_shutdown.clone()));
    }
    if let Some(listener) = ports.resp {
        wires.spawn(Resp::new(engine.clone(), access.clone()).serve(listener, data_shutdown.clone()));
    }
    let admin = ports.admin.map(|listener| tokio::spawn(admin.serve(listener, admin_shutdown)));
    shutdown.begun().await;
    health.stops();
    tracing::info!("stopping: finishing in-flight requests");
    sleep(config.stop_delay).await;
    stop_data.stop();
    while wires.join_next().await.is_some() {}
    Store::close(engine.store()).await;
    let owing = charge_local_grants(engine.store(), CHARGE_TIMEOUT).await;
    if owing > 0 {
        tracing::warn!(keys = owing, "not all local grants could be charged to the store");
    }
    engine.telemetry().traces().finish().await;
    engine.telemetry().finish_decision_log();
    stop_admin.stop();
    if let Some(admin) = admin {
        let _ = admin.await;
    }
    tracing::info!("stopped");
}

/// Runs a server until `shutdown` begins and the server has drained.
pub async fn run(config: ServerConfig, shutdown: Shutdown) -> Result<(), StartError> {
    Server::start(config, shutdown).await?.finished().await;
    Ok(())
}

/// Timeout of charging the store for local grants at shutdown.
const CHARGE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);
