//! TLS clients: raw bytes for HTTP and RESP, tonic for gRPC, and the installed redis-cli.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    pin::Pin,
    process::Command,
    sync::Arc,
    task::{Context, Poll},
};

use http::Uri;
use hyper_util::rt::TokioIo;
use ratekeeper_server::grpc::wire::{Entry, RateLimitDescriptor, RateLimitRequest, RateLimitServiceClient};
use ratekeeper_testkit::servers::{Certificates, Part, require};
use tokio_rustls::{
    TlsConnector, client,
    rustls::{
        ClientConfig, ClientConnection, RootCertStore, StreamOwned,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};
use tonic::{
    codegen::Service,
    transport::{Channel, Endpoint},
};

/// The authority that a client trusts, and its own certificate.
#[derive(Clone)]
pub(crate) struct Credentials {
    ca: PathBuf,
    own: Option<(PathBuf, PathBuf)>,
}

impl Credentials {
    /// Trusts the authority; without a certificate.
    pub(crate) fn trusting(certificates: &Certificates) -> Self {
        Self { ca: certificates.ca(), own: None }
    }

    /// With a certificate of the same authority.
    pub(crate) fn with_client_certificate(certificates: &Certificates) -> Self {
        Self { own: Some((certificates.client_cert(), certificates.client_key())), ..Self::trusting(certificates) }
    }

    /// With a certificate of another authority.
    pub(crate) fn with_foreign_certificate(certificates: &Certificates) -> Self {
        Self {
            own: Some((certificates.untrusted_cert(), certificates.untrusted_key())),
            ..Self::trusting(certificates)
        }
    }

    fn config(&self, alpn: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.ca).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = vec![CertificateDer::from_pem_file(cert).unwrap()];
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// Arguments of redis-cli.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--tls".to_owned(), "--cacert".to_owned(), self.ca.display().to_string()];
        if let Some((cert, key)) = &self.own {
            arguments.extend(
                ["--cert", &cert.display().to_string(), "--key", &key.display().to_string()].map(str::to_owned),
            );
        }
        arguments
    }
}

/// A connection that sends one request after another.
pub(crate) struct TlsClient(StreamOwned<ClientConnection, TcpStream>);

impl TlsClient {
    pub(crate) fn open(server: SocketAddr, credentials: &Credentials, alpn: &[&str]) -> Self {
        let session =
            ClientConnection::new(credentials.config(alpn), ServerName::try_from("localhost").unwrap()).unwrap();
        Self(StreamOwned::new(session, crate::client::connect(server)))
    }

    /// Performs the handshake.
    pub(crate) fn handshake(&mut self) -> io::Result<()> {
        let StreamOwned { conn, sock } = &mut self.0;
        while conn.is_handshaking() {
            conn.complete_io(sock)?;
        }
        Ok(())
    }

    /// Sends a request, and reads until the response ends with `until`.
    pub(crate) fn ask(&mut self, request: &str, until: &str) -> io::Result<String> {
        self.0.write_all(request.as_bytes())?;
        self.0.flush()?;
        let mut received = Vec::new();
        while !received.ends_with(until.as_bytes()) {
            let mut piece = [0; 1_024];
            match self.0.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => received.extend_from_slice(&piece[..count]),
            }
        }
        Ok(String::from_utf8_lossy(&received).into_owned())
    }

    pub(crate) fn ping(&mut self) -> io::Result<String> {
        self.ask("PING\r\n", "\r\n")
    }

    /// An HTTP request whose response has no body.
    pub(crate) fn auth(&mut self) -> io::Result<String> {
        self.ask("GET /v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\r\n\r\n", "\r\n\r\n")
    }

    /// The protocol selected by ALPN.
    pub(crate) fn agreed(&self) -> Option<String> {
        self.0.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned())
    }
}

/// A tonic client.
pub(crate) struct Rls(RateLimitServiceClient<Channel>);

impl Rls {
    pub(crate) async fn open(server: SocketAddr, credentials: &Credentials) -> Result<Self, tonic::transport::Error> {
        let dial = Dial { server, config: credentials.config(&["h2"]) };
        let endpoint = Endpoint::from_static("http://localhost");
        endpoint.connect_with_connector(dial).await.map(|channel| Self(RateLimitServiceClient::new(channel)))
    }

    /// Sends one call.
    pub(crate) async fn ask(&mut self) -> Result<(), tonic::Status> {
        let entries = vec![Entry { key: "key".into(), value: "u".into() }];
        let descriptors = vec![RateLimitDescriptor { entries, ..Default::default() }];
        let request = RateLimitRequest { domain: "api".into(), descriptors, hits_addend: 0 };
        self.0.should_rate_limit(request).await.map(drop)
    }
}

struct Dial {
    server: SocketAddr,
    config: Arc<ClientConfig>,
}

impl Service<Uri> for Dial {
    type Response = TokioIo<client::TlsStream<tokio::net::TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (server, config) = (self.server, Arc::clone(&self.config));
        Box::pin(async move {
            let plain = tokio::net::TcpStream::connect(server).await?;
            let name = ServerName::try_from("localhost").unwrap();
            let stream = TlsConnector::from(config).connect(name, plain).await?;
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            Ok(TokioIo::new(stream))
        })
    }
}

/// The output of redis-cli, or its errors.
pub(crate) fn redis_cli(server: SocketAddr, credentials: &Credentials, words: &[&str]) -> Result<String, String> {
    let output = Command::new(require(Part::RedisCli))
        .args(["-h", "localhost", "-p", &server.port().to_string()])
        .args(credentials.arguments())
        .args(words)
        .output()
        .unwrap();
    let [printed, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    // redis-cli exits with 0 if the connection ends early, but prints an error.
    if output.status.success() && errors.is_empty() { Ok(printed) } else { Err(format!("{printed}{errors}")) }
}
