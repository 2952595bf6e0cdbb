//! TLS handshake with a server; trusted authorities and client certificate from PEM files.

use std::{io, path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::address::{HostPort, Identity, TlsFiles};

/// Performs the handshake over an open stream and verifies the server's certificate.
pub(super) async fn handshake(
    files: &TlsFiles,
    address: &HostPort,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, String> {
    let files = files.clone();
    // Reads and parses some hundred kilobytes of system certificates, so it does not run on a thread that serves callers.
    let config = tokio::task::spawn_blocking(move || client_config(&files));
    let config = config.await.map_err(|error| format!("TLS could not be set up: {error}"))??;
    let name =
        String::from(&*address.host).try_into().map_err(|_| format!("TLS has no use for the name {}", address.host))?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.map_err(|error| format!("TLS failed: {error}"))
}

fn client_config(files: &TlsFiles) -> Result<ClientConfig, String> {
    // The provider is explicit, so that it does not depend on what the process has installed.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(trusted(files.ca.as_deref())?);
    match &files.identity {
        None => Ok(config.with_no_client_auth()),
        Some(Identity { cert, key }) => {
            let own = PrivateKeyDer::from_pem_file(key).map_err(|error| in_file(key, "private key", error))?;
            let chain = certificates(cert)?;
            config.with_client_auth_cert(chain, own).map_err(|error| in_file(cert, "use for its key", error))
        }
    }
}

fn trusted(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(file) => {
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| in_file(file, "certificate to trust", error))?;
            }
        }
        None => {
            // A certificate that cannot be parsed is skipped; the others are trusted.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("the system trusts no certificates; name an authority with ca=FILE".into());
            }
        }
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| in_file(file, "certificate", error))?;
    match found.is_empty() {
        true => Err(in_file(file, "certificate", io::Error::other("it holds none"))),
        false => Ok(found),
    }
}

fn in_file(file: &Path, what: &str, error: impl std::fmt::Display) -> String {
    format!("{} has no {what}: {error}", file.display())
}
