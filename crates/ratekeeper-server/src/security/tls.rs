//! TLS of the ports: certificates from PEM files, hot reload, and optional client certificates (mTLS).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

/// PEM files of certificates and keys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsFiles {
    /// The server's certificate chain.
    pub cert: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
    /// The CA of client certificates. If set, a client needs a certificate that this CA issued.
    pub client_ca: Option<PathBuf>,
}

/// A file that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct TlsError {
    file: String,
    problem: String,
}

/// The TLS configuration in force. Clones share it.
#[derive(Clone)]
pub struct Tls {
    files: Arc<TlsFiles>,
    config: Arc<ArcSwap<ServerConfig>>,
    alpn: Vec<Vec<u8>>,
}

impl Tls {
    /// Reads the files. `alpn` lists the application protocols, the preferred first.
    pub fn read(files: &TlsFiles, alpn: &[&str]) -> Result<Self, TlsError> {
        let alpn: Vec<Vec<u8>> = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let config = ArcSwap::from_pointee(server_config(files, &alpn)?);
        Ok(Self { files: Arc::new(files.clone()), config: Arc::new(config), alpn })
    }

    /// Reads the files again. Open connections are not affected. On an error the previous configuration stays in force.
    pub fn renew(&self) -> Result<(), TlsError> {
        self.config.store(Arc::new(server_config(&self.files, &self.alpn)?));
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

fn server_config(files: &TlsFiles, alpn: &[Vec<u8>]) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let cert = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| wrong(&files.key, format!("is no private key in PEM: {error}")))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&files.cert, error.to_string()))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| wrong(file, format!("cannot be trusted: {error}")))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| wrong(file, error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(cert, key)
        .map_err(|error| wrong(&files.cert, format!("does not match the key: {error}")))?;
    config.alpn_protocols = alpn.to_vec();
    Ok(config)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(wrong(file, "has no certificate".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(file, format!("has no certificates in PEM: {error}"))),
    }
}

fn wrong(file: &Path, problem: String) -> TlsError {
    TlsError { file: file.display().to_string(), problem }
}
