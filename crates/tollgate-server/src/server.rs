//! A running server: from configuration to listening ports, and back down in good order.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::{
    task::{JoinHandle, JoinSet},
    time::sleep,
};
use tollgate_rules::{Problems, read_paths};

use crate::{
    admin::Admin,
    config::ServerConfig,
    engine::{Engine, LoadError},
    grpc::Grpc,
    health::Health,
    http::{Guard, Http},
    listen::{ListenError, Listener},
    outage,
    resp::Resp,
    sample::sample_rules,
    security::{Access, OpenDoor, RequiredSecret, Tls, TlsError, TokenError, Tokens, open_doors},
    shutdown::{self, Shutdown},
    telemetry::{Telemetry, TraceError, Wire},
    watch::{Files, Reload, Watched},
    wiring::{Storage, StoreAddressError},
};

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The rule files have mistakes.
    #[error("{0}")]
    Rules(Problems),
    /// The store would not take them.
    #[error("{0}")]
    Load(LoadError),
    /// The address of the store is none.
    #[error("--store: {0}; or use memory, which needs no server")]
    Store(StoreAddressError),
    /// A port cannot be had.
    #[error("{0}")]
    Listen(#[from] ListenError),
    /// A certificate cannot be used.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The tokens cannot be used.
    #[error("{0}")]
    Tokens(#[from] TokenError),
    /// There can be no traces.
    #[error("--otel: {0}")]
    Traces(#[from] TraceError),
    /// Something of the system.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// A server at work.
#[derive(Debug)]
pub struct Server {
    /// What answers.
    pub engine: Engine,
    /// Where it listens.
    pub addresses: Addresses,
    /// Asks for files to be read again.
    pub reload: Reload,
    work: JoinHandle<()>,
}

/// Where a server listens; ports are real ones even where 0 was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    /// HTTP.
    pub http: Option<SocketAddr>,
    /// Envoy's protocol.
    pub grpc: Option<SocketAddr>,
    /// Redis' protocol.
    pub resp: Option<SocketAddr>,
    /// Metrics, health, switches.
    pub admin: Option<SocketAddr>,
}

impl Server {
    /// Reads rules, opens the store, takes the ports; when this returns, all of them answer. It stops when `shutdown` says
    /// so; [`finished`](Self::finished) waits for the end.
    pub async fn start(config: ServerConfig, shutdown: Shutdown) -> Result<Self, StartError> {
        let files = Files {
            rules: config.rules.clone(),
            tokens: config.tokens.clone(),
            admin_token: config.admin_token_file.clone(),
            auth_secret: config.auth_secret_file.clone(),
            tls: config.tls.clone(),
        };
        let before = files.look();
        let rules = if config.rules.is_empty() { sample_rules() } else { read_paths(&config.rules) };
        let rules = rules.map_err(StartError::Rules)?;
        let access = match &config.tokens {
            Some(file) => Access::by(Tokens::read(file)?),
            None => Access::open(),
        };
        let store = Storage::open(config.store.expose(), &config.storage).await.map_err(StartError::Store)?;
        let mut telemetry = Telemetry::default();
        telemetry.watch_store(store.clone());
        if let Some(traces) = &config.traces {
            match telemetry.trace_to(traces) {
                Err(error) if !traces.is_wanted => tracing::warn!("there are no traces: {error}"),
                started => started?,
            }
        }
        let telemetry = Arc::new(telemetry);
        let engine = Engine::new(store, Arc::clone(&telemetry));
        engine.carry(config.carry);
        engine.envoy_counts_refused(config.envoy_counts_refused);
        engine.load(Ok(rules)).map_err(StartError::Load)?;

        let ports = Ports::take(&config, &telemetry).await?;
        let addresses = ports.addresses()?;
        for OpenDoor { wire, address, danger } in open_doors(&config, &addresses, access.is_open()) {
            tracing::warn!(wire, %address, "{danger}");
        }
        let health = Health::new(engine.clone());
        let admin_token = RequiredSecret::new(config.admin_token.clone());
        let watched = Watched {
            files,
            engine: engine.clone(),
            health: health.clone(),
            access: access.clone(),
            admin_token: admin_token.clone(),
            auth_secret: config.auth.secret.clone(),
            tls: ports.tls.clone(),
        };
        tokio::spawn(outage::watch(engine.clone(), shutdown.clone()));
        let reload = watched.start(before, config.look_every, shutdown.clone());
        let guard = guard_at(addresses.admin, &config);
        let admin = Admin::new(engine.clone(), health.clone(), reload.clone(), admin_token, guard);
        let work = tokio::spawn(work(config, ports, engine.clone(), access, health, admin, shutdown));
        Ok(Self { engine, addresses, reload, work })
    }

    /// Waits until the last request is answered, or the time for that is up.
    pub async fn finished(self) {
        if let Err(error) = self.work.await {
            tracing::error!(%error, "the server ended in disorder");
        }
    }
}

/// The ports, taken before anything is served: either all of them, or none.
struct Ports {
    http: Option<Listener>,
    grpc: Option<Listener>,
    resp: Option<Listener>,
    admin: Option<Listener>,
    tls: Vec<Tls>,
}

impl Ports {
    async fn take(config: &ServerConfig, telemetry: &Arc<Telemetry>) -> Result<Self, StartError> {
        let mut tls = Vec::new();
        let mut secured = |alpn: &[&str]| -> Result<Option<Tls>, TlsError> {
            let Some(files) = &config.tls else { return Ok(None) };
            let one = Tls::read(files, alpn)?;
            tls.push(one.clone());
            Ok(Some(one))
        };
        let web = secured(&["h2", "http/1.1"])?;
        let h2 = secured(&["h2"])?;
        let bare = secured(&[])?;
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

/// Serves until the word to stop. The admin port stays a little longer, so that whoever looks can see what happens.
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
    tracing::info!("stopping: what is under way is finished first");
    sleep(config.stop_delay).await;
    stop_data.stop();
    while wires.join_next().await.is_some() {}
    let owing = engine.store().charge_local_grants(CHARGING_TAKES).await;
    if owing > 0 {
        tracing::warn!(keys = owing, "the store was not charged for everything that was granted without it");
    }
    engine.telemetry().traces().finish().await;
    stop_admin.stop();
    if let Some(admin) = admin {
        let _ = admin.await;
    }
    tracing::info!("stopped");
}

/// Runs a server until `shutdown` says to stop and everything under way is finished.
pub async fn run(config: ServerConfig, shutdown: Shutdown) -> Result<(), StartError> {
    Server::start(config, shutdown).await?.finished().await;
    Ok(())
}

/// How long a server that stops tries to charge its store for local grants.
const CHARGING_TAKES: std::time::Duration = std::time::Duration::from_secs(2);
