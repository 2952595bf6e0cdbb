//! TLS settings of the client: trusted authorities and the client certificate.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

use crate::report::Failure;

#[derive(Debug, Args)]
#[command(next_help_heading = "TLS, for https://")]
pub(crate) struct TlsArgs {
    /// Certificate authority of the server, as PEM. The default is the system's trust store.
    #[arg(long, env = "RATEKEEPER_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The client certificate, for servers that require one.
    #[arg(long, env = "RATEKEEPER_CERT", value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key.
    #[arg(long, env = "RATEKEEPER_KEY", value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl TlsArgs {
    /// Settings of a command whose `--key` is the key of a limit.
    pub(crate) fn new(ca: Option<PathBuf>, cert: Option<PathBuf>, key: Option<PathBuf>) -> Self {
        Self { ca, cert, key }
    }

    pub(super) fn connector(&self) -> Result<TlsConnector, Failure> {
        // An explicit provider does not depend on the process-wide default.
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::Option(error.to_string()))?
            .with_root_certificates(self.authorities()?);
        let config = match self.cert.as_deref().zip(self.key.as_deref()) {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let key = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| invalid("--key", key, format!("is not a private key in PEM: {error}")))?;
                config
                    .with_client_auth_cert(certificates("--cert", cert)?, key)
                    .map_err(|error| invalid("--cert", cert, format!("does not match the key: {error}")))?
            }
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }

    fn authorities(&self) -> Result<RootCertStore, Failure> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(file) => {
                for certificate in certificates("--ca", file)? {
                    roots
                        .add(certificate)
                        .map_err(|error| invalid("--ca", file, format!("cannot be trusted: {error}")))?;
                }
            }
            None => {
                // One invalid certificate in the system store does not invalidate the others.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    return Err(Failure::Options("this machine trusts no authority; name one with --ca FILE"));
                }
            }
        }
        Ok(roots)
    }
}

fn certificates(flag: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(invalid(flag, file, "contains no certificate".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(invalid(flag, file, format!("contains no certificates in PEM: {error}"))),
    }
}

fn invalid(flag: &str, file: &Path, problem: String) -> Failure {
    Failure::Option(format!("{flag} {}: {problem}", file.display()))
}
