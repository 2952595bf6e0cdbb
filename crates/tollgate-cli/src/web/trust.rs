//! Whom to trust and who to be where a server speaks TLS.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

use crate::report::Failure;

#[derive(Debug, Args)]
#[command(next_help_heading = "TLS, for https://")]
pub(crate) struct Trust {
    /// The authority that signed the server's certificate, as PEM; without it, those that this machine trusts.
    #[arg(long, env = "TOLLGATE_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The certificate to show, where a server asks for one.
    #[arg(long, env = "TOLLGATE_CERT", value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key.
    #[arg(long, env = "TOLLGATE_KEY", value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl Trust {
    pub(super) fn connector(&self) -> Result<TlsConnector, Failure> {
        // The provider is named here, so that nothing depends on what else the process has installed.
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::Option(error.to_string()))?
            .with_root_certificates(self.authorities()?);
        let config = match self.cert.as_deref().zip(self.key.as_deref()) {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let own = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| wrong("--key", key, format!("is no private key in PEM: {error}")))?;
                config
                    .with_client_auth_cert(certificates("--cert", cert)?, own)
                    .map_err(|error| wrong("--cert", cert, format!("does not go with the key: {error}")))?
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
                        .map_err(|error| wrong("--ca", file, format!("cannot be trusted: {error}")))?;
                }
            }
            None => {
                // One odd certificate among hundreds is no reason to trust none of them.
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
        Ok(found) if found.is_empty() => Err(wrong(flag, file, "has no certificate in it".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(flag, file, format!("holds no certificates in PEM: {error}"))),
    }
}

fn wrong(flag: &str, file: &Path, problem: String) -> Failure {
    Failure::Option(format!("{flag} {}: {problem}", file.display()))
}
