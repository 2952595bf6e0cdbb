//! TLS on every wire: server and client certificates, ALPN, and reload of certificates.

use std::{fs, net::SocketAddr, time::Duration};

use ratekeeper_server::{security::TlsFiles, server::Addresses};
use ratekeeper_testkit::servers::{Certificates, wait_until};

use crate::{
    fixture::Fixture,
    tls_clients::{Credentials, Rls, TlsClient, redis_cli},
};

/// A server with all wires, and certificates in its folder.
fn with_tls(certificates: &Certificates, requires_client_certificate: bool) -> (Fixture, Addresses) {
    let fixture = Fixture::start(|folder, config| {
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        fs::copy(certificates.server_cert(), &cert).unwrap();
        fs::copy(certificates.server_key(), &key).unwrap();
        config.tls = Some(TlsFiles { cert, key, client_ca: requires_client_certificate.then(|| certificates.ca()) });
        (config.grpc, config.resp) = (config.http, config.http);
    });
    let addresses = fixture.server.as_ref().unwrap().addresses;
    (fixture, addresses)
}

/// Whether a client with these credentials gets a response, on HTTP, RESP and gRPC.
fn answered(fixture: &Fixture, at: &Addresses, credentials: &Credentials) -> [bool; 3] {
    let http = TlsClient::open(at.http.unwrap(), credentials, &[]).auth().is_ok();
    let resp = TlsClient::open(at.resp.unwrap(), credentials, &[]).ping().is_ok();
    let grpc = fixture.runtime.block_on(async {
        match Rls::open(at.grpc.unwrap(), credentials).await {
            Ok(mut client) => client.ask().await.is_ok(),
            Err(_) => false,
        }
    });
    [http, resp, grpc]
}

#[test]
fn every_wire_speaks_tls() {
    let certificates = Certificates::new();
    let (fixture, at) = with_tls(&certificates, false);
    let credentials = Credentials::trusting(&certificates);
    assert_eq!(answered(&fixture, &at, &credentials), [true; 3]);
    assert_eq!(
        answered(&fixture, &at, &Credentials::trusting(&Certificates::new())),
        [false; 3],
        "the client does not trust the authority"
    );
    let throttle = ["CL.THROTTLE", "u", "2", "30", "60"];
    assert_eq!(redis_cli(at.resp.unwrap(), &credentials, &throttle).as_deref(), Ok("0\n3\n2\n-1\n2\n"));
    assert!(redis_cli(at.resp.unwrap(), &Credentials::trusting(&Certificates::new()), &["PING"]).is_err());
}

#[test]
fn alpn_selects_the_protocol() {
    let certificates = Certificates::new();
    let (_fixture, at) = with_tls(&certificates, false);
    let agreed = |server: Option<SocketAddr>, offers: &[&str]| {
        let mut client = TlsClient::open(server.unwrap(), &Credentials::trusting(&certificates), offers);
        client.handshake().map(|()| client.agreed()).map_err(|error| error.to_string())
    };
    assert_eq!(agreed(at.http, &["h2", "http/1.1"]), Ok(Some("h2".to_owned())));
    assert_eq!(agreed(at.http, &["http/1.1"]), Ok(Some("http/1.1".to_owned())));
    assert_eq!(agreed(at.grpc, &["http/1.1", "h2"]), Ok(Some("h2".to_owned())));
    assert!(agreed(at.grpc, &["http/1.1"]).unwrap_err().contains("NoApplicationProtocol"));
    assert_eq!(agreed(at.resp, &[]), Ok(None));
}

#[test]
fn every_wire_requires_client_certificates_if_configured() {
    let certificates = Certificates::new();
    let (fixture, at) = with_tls(&certificates, true);
    let [known, without, foreign] = [
        Credentials::with_client_certificate(&certificates),
        Credentials::trusting(&certificates),
        Credentials::with_foreign_certificate(&certificates),
    ];
    assert_eq!(answered(&fixture, &at, &known), [true; 3]);
    assert_eq!(answered(&fixture, &at, &without), [false; 3]);
    assert_eq!(answered(&fixture, &at, &foreign), [false; 3]);
    let ping = |credentials| redis_cli(at.resp.unwrap(), credentials, &["PING"]);
    assert_eq!(ping(&known).as_deref(), Ok("PONG\n"));
    assert!(ping(&without).is_err() && ping(&foreign).is_err());
}

#[test]
fn certificates_are_reloaded_and_open_connections_are_kept() {
    let (first, second) = (Certificates::new(), Certificates::new());
    let (fixture, at) = with_tls(&first, false);
    let [old, new] = [&first, &second].map(Credentials::trusting);
    let mut http = TlsClient::open(at.http.unwrap(), &old, &[]);
    let mut resp = TlsClient::open(at.resp.unwrap(), &old, &[]);
    let mut grpc = fixture.runtime.block_on(Rls::open(at.grpc.unwrap(), &old)).unwrap();
    let mut all_answer = || {
        assert!(http.auth().unwrap().starts_with("HTTP/1.1 200"));
        assert_eq!(resp.ping().unwrap(), "+PONG\r\n");
        fixture.runtime.block_on(grpc.ask()).unwrap();
    };
    all_answer();
    fs::copy(second.server_key(), fixture.path("key.pem")).unwrap();
    fs::copy(second.server_cert(), fixture.path("cert.pem")).unwrap();
    wait_until("the new certificate", Duration::from_secs(20), || answered(&fixture, &at, &new) == [true; 3]);
    assert_eq!(answered(&fixture, &at, &old), [false; 3], "new connections get the new certificate");
    all_answer();
}

/// A partly written file: the old certificate stays in use until a valid one is written.
#[test]
fn an_unreadable_certificate_changes_nothing() {
    let (first, second) = (Certificates::new(), Certificates::new());
    let (fixture, at) = with_tls(&first, false);
    fixture.write("cert.pem", "-----BEGIN CERTIFICATE-----\n");
    let [old, new] = [&first, &second].map(Credentials::trusting);
    let failed = r#"ratekeeper_secret_reloads_total{what="certificates",outcome="failed"}"#;
    wait_until("the failure is counted", Duration::from_secs(20), || fixture.metric(failed) == Some(1.0));
    let ready = fixture.admin_get("/readyz");
    assert!(ready.status == 200 && ready.body.contains("the certificates could not be reloaded"), "{}", ready.body);
    (0..5).for_each(|_| assert_eq!(answered(&fixture, &at, &old), [true; 3]));
    fs::copy(second.server_key(), fixture.path("key.pem")).unwrap();
    fs::copy(second.server_cert(), fixture.path("cert.pem")).unwrap();
    wait_until("the new certificate", Duration::from_secs(20), || answered(&fixture, &at, &new) == [true; 3]);
}
