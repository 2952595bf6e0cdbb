//! TLS certificates for tests: of a private authority, generated for each test, and of an untrusted authority.

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

/// Whether a TLS server accepts clients without a certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClientCertificate {
    /// The handshake fails without a certificate of the authority.
    Required,
    /// No client certificate is requested.
    NotAsked,
}

impl Certificates {
    /// Makes an authority, certificates for a server and a client, and an authority that signed neither.
    pub fn new() -> Self {
        let certificates = Self { home: Arc::new(tempfile::tempdir().expect("a temporary directory")) };
        let authority = authority("ratekeeper test authority");
        certificates.write("ca.pem", &authority.pem());
        certificates.issue("server", &authority, ExtendedKeyUsagePurpose::ServerAuth);
        certificates.issue("client", &authority, ExtendedKeyUsagePurpose::ClientAuth);

        let untrusted = self::authority("ratekeeper test untrusted");
        certificates.write("wrong-ca.pem", &untrusted.pem());
        certificates.issue("untrusted", &untrusted, ExtendedKeyUsagePurpose::ClientAuth);
        certificates
    }

    /// The authority that clients and servers should trust.
    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// The server's certificate, valid for `127.0.0.1` and `localhost`.
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

    /// An authority that has signed neither: a client trusting only this one must refuse.
    pub fn wrong_ca(&self) -> PathBuf {
        self.file("wrong-ca.pem")
    }

    /// A client certificate of the wrong authority, which a server must refuse.
    pub fn untrusted_cert(&self) -> PathBuf {
        self.file("untrusted.pem")
    }

    /// The private key that belongs to it.
    pub fn untrusted_key(&self) -> PathBuf {
        self.file("untrusted.key")
    }

    fn issue(&self, name: &str, authority: &CertifiedIssuer<'_, KeyPair>, purpose: ExtendedKeyUsagePurpose) {
        let mut params = CertificateParams::new(["localhost".into(), "127.0.0.1".into()]).expect("two valid names");
        params.distinguished_name.push(DnType::CommonName, format!("ratekeeper test {name}"));
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, authority).expect("a signature");
        self.write(&format!("{name}.pem"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, pem: &str) {
        fs::write(self.file(name), pem).expect("the directory is writable");
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
