//! A trace collector (OTLP over gRPC) that keeps what it receives.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message;
use ratekeeper_testkit::servers::Certificates;
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
};
use tonic::{Request, Response, Status};

/// A trace collector on a free loopback port; stopped when dropped.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    received: Received,
    _runtime: Runtime,
}

#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::with(None)
    }

    /// A collector with TLS that requires client certificates.
    pub(crate) fn secured(certificates: &Certificates) -> Self {
        let read = |file: PathBuf| CertificateDer::pem_file_iter(file).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        let mut trusted = RootCertStore::empty();
        trusted.add_parsable_certificates(read(certificates.ca()));
        let provider = Arc::new(ring::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(trusted), Arc::clone(&provider)).build().unwrap();
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::from_pem_file(certificates.server_key()).unwrap();
        let config = config.with_client_cert_verifier(clients);
        let mut config = config.with_single_cert(read(certificates.server_cert()), key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self::with(Some(TlsAcceptor::from(Arc::new(config))))
    }

    fn with(tls: Option<TlsAcceptor>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let (address, received) = (listener.local_addr().unwrap(), Received::default());
        let service = TraceServiceServer::new(received.clone());
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(service.clone());
                let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let Some(tls) = tls.clone() else {
                    tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
                    continue;
                };
                tokio::spawn(async move {
                    if let Ok(stream) = tls.accept(stream).await {
                        let _ = http.serve_connection(TokioIo::new(stream), service).await;
                    }
                });
            }
        });
        Self { address, received, _runtime: runtime }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All spans so far, in the order they ended.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let received = self.received.0.lock().unwrap();
        let resources = received.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }

    /// The resource attributes of the first span.
    pub(crate) fn sender(&self) -> BTreeMap<String, String> {
        let received = self.received.0.lock().unwrap();
        let resource = received[0].resource_spans[0].resource.clone().unwrap();
        printed(&resource.attributes)
    }

    /// All bytes received.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.received.0.lock().unwrap().iter().flat_map(Message::encode_to_vec).collect()
    }
}

/// Attributes by name, values as text.
pub(crate) fn printed(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let value =
        |one: &KeyValue| one.value.as_ref().and_then(|value| value.value.as_ref()).map(text).unwrap_or_default();
    attributes.iter().map(|one| (one.key.clone(), value(one))).collect()
}
