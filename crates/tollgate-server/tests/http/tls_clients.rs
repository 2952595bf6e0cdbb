//! Clients that speak TLS: bytes for HTTP and RESP, tonic for gRPC, redis-cli as it comes from the distribution.

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
use tokio_rustls::{
    TlsConnector, client,
    rustls::{
        ClientConfig, ClientConnection, RootCertStore, StreamOwned,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};
use tollgate_server::grpc::wire::{Entry, RateLimitDescriptor, RateLimitRequest, RateLimitServiceClient};
use tollgate_testkit::servers::{Certificates, Part, require};
use tonic::{
    codegen::Service,
    transport::{Channel, Endpoint},
};

/// Whom a client trusts, and what it shows of itself.
#[derive(Clone)]
pub(crate) struct Papers {
    ca: PathBuf,
    own: Option<(PathBuf, PathBuf)>,
}

impl Papers {
    /// Trusts the authority and shows nothing.
    pub(crate) fn trusting(certificates: &Certificates) -> Self {
        Self { ca: certificates.ca(), own: None }
    }

    /// Shows a certificate of the same authority.
    pub(crate) fn of_a_client(certificates: &Certificates) -> Self {
        Self { own: Some((certificates.client_cert(), certificates.client_key())), ..Self::trusting(certificates) }
    }

    /// Shows one of another authority.
    pub(crate) fn of_a_stranger(certificates: &Certificates) -> Self {
        Self { own: Some((certificates.stranger_cert(), certificates.stranger_key())), ..Self::trusting(certificates) }
    }

    fn config(&self, alpn: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.ca).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
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

    /// What redis-cli is told.
    fn arguments(&self) -> Vec<String> {
        let mut told = vec!["--tls".to_owned(), "--cacert".to_owned(), self.ca.display().to_string()];
        if let Some((cert, key)) = &self.own {
            told.extend(
                ["--cert", &cert.display().to_string(), "--key", &key.display().to_string()].map(str::to_owned),
            );
        }
        told
    }
}

/// A connection on which a client asks again and again.
pub(crate) struct Line(StreamOwned<ClientConnection, TcpStream>);

impl Line {
    pub(crate) fn open(server: SocketAddr, papers: &Papers, alpn: &[&str]) -> Self {
        let session = ClientConnection::new(papers.config(alpn), ServerName::try_from("localhost").unwrap()).unwrap();
        Self(StreamOwned::new(session, crate::client::connect(server)))
    }

    /// Gets to know the server.
    pub(crate) fn handshake(&mut self) -> io::Result<()> {
        let StreamOwned { conn, sock } = &mut self.0;
        while conn.is_handshaking() {
            conn.complete_io(sock)?;
        }
        Ok(())
    }

    /// Sends, and reads until the answer ends like this.
    pub(crate) fn ask(&mut self, says: &str, until: &str) -> io::Result<String> {
        self.0.write_all(says.as_bytes())?;
        self.0.flush()?;
        let mut heard = Vec::new();
        while !heard.ends_with(until.as_bytes()) {
            let mut piece = [0; 1_024];
            match self.0.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => heard.extend_from_slice(&piece[..count]),
            }
        }
        Ok(String::from_utf8_lossy(&heard).into_owned())
    }

    pub(crate) fn ping(&mut self) -> io::Result<String> {
        self.ask("PING\r\n", "\r\n")
    }

    /// What answers to HTTP without a body.
    pub(crate) fn auth(&mut self) -> io::Result<String> {
        self.ask("GET /v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\r\n\r\n", "\r\n\r\n")
    }

    /// What both sides have agreed to speak.
    pub(crate) fn agreed(&self) -> Option<String> {
        self.0.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned())
    }
}

/// A tonic client.
pub(crate) struct Rls(RateLimitServiceClient<Channel>);

impl Rls {
    pub(crate) async fn open(server: SocketAddr, papers: &Papers) -> Result<Self, tonic::transport::Error> {
        let dial = Dial { server, config: papers.config(&["h2"]) };
        let endpoint = Endpoint::from_static("http://localhost");
        endpoint.connect_with_connector(dial).await.map(|channel| Self(RateLimitServiceClient::new(channel)))
    }

    /// Asks about a key; whether there was an answer.
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

/// What redis-cli prints, or complains.
pub(crate) fn redis_cli(server: SocketAddr, papers: &Papers, words: &[&str]) -> Result<String, String> {
    let output = Command::new(require(Part::RedisCli))
        .args(["-h", "localhost", "-p", &server.port().to_string()])
        .args(papers.arguments())
        .args(words)
        .output()
        .unwrap();
    let [told, complaint] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    // Where a connection ends in the middle, it complains and calls that a success.
    if output.status.success() && complaint.is_empty() { Ok(told) } else { Err(format!("{told}{complaint}")) }
}
