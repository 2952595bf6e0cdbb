//! Tokens, certificates, and secrets that stay secret.

use std::{fs, io::Read, net::SocketAddr, sync::Arc, time::Duration};

use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tollgate_server::{
    config::ServerConfig,
    security::{Secret, TlsFiles},
};
use tollgate_testkit::servers::{Certificates, wait_until};

use crate::{client::ask, desk::Desk};

const TOKEN: &str = "canary-0123456789abcdef";
const U: &[u8] = br#"{"domain":"api","key":"u"}"#;

fn with_tokens() -> Desk {
    Desk::start(|folder, config| {
        let file = folder.path().join("tokens");
        fs::write(&file, format!("edge {TOKEN} api\nops canary-fedcba9876543210 *\n")).unwrap();
        config.tokens = Some(file);
    })
}

fn bearing(desk: &Desk, token: &str, body: &[u8]) -> u16 {
    let value = format!("Bearer {token}");
    ask(desk.http, "POST", "/v1/check", &[("authorization", &value)], body).status
}

#[test]
fn without_a_token_nobody_is_answered() {
    let desk = with_tokens();
    let reply = ask(desk.http, "POST", "/v1/check", &[], U);
    reply.is_problem(401, "Bearer");
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    desk.get("/v1/auth", &[]).is_problem(401, "Bearer");
    assert_eq!(bearing(&desk, "canary-0123456789abcdeF", U), 401);
    assert_eq!(bearing(&desk, TOKEN, U), 200);
}

#[test]
fn a_token_is_for_its_domains() {
    let desk = with_tokens();
    let other = br#"{"domain":"other","key":"u"}"#;
    assert_eq!((bearing(&desk, TOKEN, other), bearing(&desk, "canary-fedcba9876543210", other)), (403, 200));
    let value = format!("Bearer {TOKEN}");
    assert_eq!(desk.get("/v1/auth?domain=other", &[("authorization", &value)]).status, 403);
}

#[test]
fn tokens_are_read_again_when_they_change() {
    let desk = with_tokens();
    desk.write("tokens", "edge another-0123456789 api\n");
    wait_until("the new token", Duration::from_secs(20), || bearing(&desk, "another-0123456789", U) == 200);
    assert_eq!(bearing(&desk, TOKEN, U), 401, "the old one is good for nothing");
}

#[test]
fn the_admin_port_has_a_token_of_its_own() {
    let desk = Desk::with(|config| config.admin_token = Some(Secret::new(TOKEN)));
    for path in ["/metrics", "/api/state", "/api/switches"] {
        desk.admin_get(path).is_problem(401, "Bearer");
        let value = format!("Bearer {TOKEN}");
        assert_eq!(ask(desk.admin, "GET", path, &[("authorization", &value)], b"").status, 200);
    }
    assert_eq!(
        (desk.admin_get("/healthz").status, desk.admin_get("/readyz").status),
        (200, 200),
        "probes have no token"
    );
}

/// Nothing that is shown or told holds a secret.
#[test]
fn secrets_are_never_told() {
    let config = ServerConfig {
        store: Secret::new("redis://app:canary-password@127.0.0.1:1"),
        admin_token: Some(Secret::new("canary-admin")),
        ..ServerConfig::default()
    };
    assert!(!format!("{config:?}").contains("canary"));
    let desk = Desk::start(|folder, config| {
        let file = folder.path().join("tokens");
        fs::write(&file, format!("edge {TOKEN} *\n")).unwrap();
        config.tokens = Some(file);
        // Nobody is there; rules answer by themselves, and the failure is told.
        config.store = Secret::new("redis://app:canary-password@127.0.0.1:1");
        config.admin_token = None;
    });
    let value = format!("Bearer {TOKEN}");
    let mut told = ask(desk.http, "POST", "/v1/check", &[("authorization", &value)], U).body;
    told.push_str(&ask(desk.http, "POST", "/v1/reset", &[("authorization", &value)], U).body);
    for path in ["/metrics", "/readyz", "/api/state", "/"] {
        told.push_str(&desk.admin_get(path).body);
    }
    told.push_str(&format!("{:?}", desk.server));
    assert!(told.contains("127.0.0.1:1"), "the failure is told: {told}");
    assert!(!told.contains("canary"), "{told}");
}

/// What a TLS client gets for one request.
fn over_tls(
    server: SocketAddr,
    ca: &std::path::Path,
    own: Option<(&std::path::Path, &std::path::Path)>,
) -> Result<String, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let chain = vec![CertificateDer::from_pem_file(cert).unwrap()];
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
        }
    };
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(session, crate::client::connect(server));
    let request = b"GET /v1/auth?cost=0 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    std::io::Write::write_all(&mut stream, request).map_err(|error| error.to_string())?;
    let mut reply = Vec::new();
    match stream.read_to_end(&mut reply) {
        Ok(_) => Ok(String::from_utf8_lossy(&reply).into_owned()),
        Err(error) if reply.is_empty() => Err(error.to_string()),
        Err(_) => Ok(String::from_utf8_lossy(&reply).into_owned()),
    }
}

fn with_tls(certificates: &Certificates, client_ca: bool) -> Desk {
    Desk::start(|folder, config| {
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        fs::copy(certificates.server_cert(), &cert).unwrap();
        fs::copy(certificates.server_key(), &key).unwrap();
        config.tls = Some(TlsFiles { cert, key, client_ca: client_ca.then(|| certificates.ca()) });
    })
}

#[test]
fn tls_is_spoken_and_certificates_are_read_again() {
    let first = Certificates::new();
    let desk = with_tls(&first, false);
    assert!(over_tls(desk.http, &first.ca(), None).unwrap().starts_with("HTTP/1.1 200"));
    let second = Certificates::new();
    assert!(over_tls(desk.http, &second.ca(), None).is_err(), "an authority that is not trusted");
    fs::copy(second.server_key(), desk.path("key.pem")).unwrap();
    fs::copy(second.server_cert(), desk.path("cert.pem")).unwrap();
    wait_until("the new certificate", Duration::from_secs(20), || over_tls(desk.http, &second.ca(), None).is_ok());
}

#[test]
fn clients_are_asked_for_their_certificate() {
    let certificates = Certificates::new();
    let desk = with_tls(&certificates, true);
    let own = (certificates.client_cert(), certificates.client_key());
    let told = over_tls(desk.http, &certificates.ca(), Some((&own.0, &own.1)));
    assert!(told.unwrap().starts_with("HTTP/1.1 200"));
    assert!(over_tls(desk.http, &certificates.ca(), None).is_err());
    let stranger = (certificates.stranger_cert(), certificates.stranger_key());
    assert!(over_tls(desk.http, &certificates.ca(), Some((&stranger.0, &stranger.1))).is_err());
}
