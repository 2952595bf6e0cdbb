//! Certificates of a private authority, made afresh for each test, and those of a stranger.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

/// PEM files for a server on loopback and its clients. Removed with the last copy of this handle.
#[derive(Clone, Debug)]
pub struct Certificates {
    home: Arc<TempDir>,
}

/// Whether a TLS server lets in clients that show no certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClientCertificate {
    /// The handshake fails without one that the authority signed.
    Required,
    /// Nobody is asked.
    NotAsked,
}

impl Certificates {
    /// Makes an authority, certificates for a server and a client, and an authority that signed neither.
    pub fn new() -> Self {
        let certificates = Self { home: Arc::new(tempfile::tempdir().expect("a temporary directory")) };
        let authority = authority("tollgate test authority");
        certificates.write("ca.pem", &authority.pem());
        certificates.issue("server", &authority, ExtendedKeyUsagePurpose::ServerAuth);
        certificates.issue("client", &authority, ExtendedKeyUsagePurpose::ClientAuth);

        let stranger = self::authority("tollgate test stranger");
        certificates.write("wrong-ca.pem", &stranger.pem());
        certificates.issue("stranger", &stranger, ExtendedKeyUsagePurpose::ClientAuth);
        certificates
    }

    /// The authority that clients and servers should trust.
    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// The server's certificate, good for `127.0.0.1` and `localhost`.
    pub fn server_cert(&self) -> PathBuf {
        self.file("server.pem")
    }

    /// The server's private key.
    pub fn server_key(&self) -> PathBuf {
        self.file("server.key")
    }

    /// A client's certificate.
    pub fn client_cert(&self) -> PathBuf {
        self.file("client.pem")
    }

    /// The client's private key.
    pub fn client_key(&self) -> PathBuf {
        self.file("client.key")
    }

    /// An authority that has signed neither: a client trusting only this one must turn away.
    pub fn wrong_ca(&self) -> PathBuf {
        self.file("wrong-ca.pem")
    }

    /// A client certificate of the wrong authority, which a server must turn away.
    pub fn stranger_cert(&self) -> PathBuf {
        self.file("stranger.pem")
    }

    /// The private key that belongs to it.
    pub fn stranger_key(&self) -> PathBuf {
        self.file("stranger.key")
    }

    fn issue(&self, name: &str, authority: &CertifiedIssuer<'_, KeyPair>, purpose: ExtendedKeyUsagePurpose) {
        let mut params = CertificateParams::new(["localhost".into(), "127.0.0.1".into()]).expect("two sound names");
        params.distinguished_name.push(DnType::CommonName, format!("tollgate test {name}"));
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, authority).expect("a signature");
        self.write(&format!("{name}.pem"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, pem: &str) {
        fs::write(self.file(name), pem).expect("the directory is ours");
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::join(self.home.path(), name)
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}

impl ClientCertificate {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Required => "yes",
            Self::NotAsked => "no",
        }
    }
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("a signature")
}
