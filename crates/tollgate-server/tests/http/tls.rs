//! TLS on every wire: spoken, asked for both ways, and renewed while connections stand.

use std::{fs, net::SocketAddr, time::Duration};

use tollgate_server::{security::TlsFiles, server::Addresses};
use tollgate_testkit::servers::{Certificates, wait_until};

use crate::{
    desk::Desk,
    tls_clients::{Line, Papers, Rls, redis_cli},
};

/// A server with all wires, and certificates in its folder.
fn with_tls(certificates: &Certificates, asks_clients: bool) -> (Desk, Addresses) {
    let desk = Desk::start(|folder, config| {
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        fs::copy(certificates.server_cert(), &cert).unwrap();
        fs::copy(certificates.server_key(), &key).unwrap();
        config.tls = Some(TlsFiles { cert, key, client_ca: asks_clients.then(|| certificates.ca()) });
        (config.grpc, config.resp) = (config.http, config.http);
    });
    let addresses = desk.server.as_ref().unwrap().addresses;
    (desk, addresses)
}

/// Whether a client with these papers is answered, on HTTP, RESP and gRPC.
fn answered(desk: &Desk, at: &Addresses, papers: &Papers) -> [bool; 3] {
    let http = Line::open(at.http.unwrap(), papers, &[]).auth().is_ok();
    let resp = Line::open(at.resp.unwrap(), papers, &[]).ping().is_ok();
    let grpc = desk.runtime.block_on(async {
        match Rls::open(at.grpc.unwrap(), papers).await {
            Ok(mut client) => client.ask().await.is_ok(),
            Err(_) => false,
        }
    });
    [http, resp, grpc]
}

#[test]
fn every_wire_speaks_tls() {
    let certificates = Certificates::new();
    let (desk, at) = with_tls(&certificates, false);
    let papers = Papers::trusting(&certificates);
    assert_eq!(answered(&desk, &at, &papers), [true; 3]);
    assert_eq!(
        answered(&desk, &at, &Papers::trusting(&Certificates::new())),
        [false; 3],
        "an authority that is not trusted"
    );
    let throttle = ["CL.THROTTLE", "u", "2", "30", "60"];
    assert_eq!(redis_cli(at.resp.unwrap(), &papers, &throttle).as_deref(), Ok("0\n3\n2\n-1\n2\n"));
    assert!(redis_cli(at.resp.unwrap(), &Papers::trusting(&Certificates::new()), &["PING"]).is_err());
}

#[test]
fn what_is_spoken_inside_is_agreed_on_outside() {
    let certificates = Certificates::new();
    let (_desk, at) = with_tls(&certificates, false);
    let agreed = |server: Option<SocketAddr>, offers: &[&str]| {
        let mut line = Line::open(server.unwrap(), &Papers::trusting(&certificates), offers);
        line.handshake().map(|()| line.agreed()).map_err(|error| error.to_string())
    };
    assert_eq!(agreed(at.http, &["h2", "http/1.1"]), Ok(Some("h2".to_owned())));
    assert_eq!(agreed(at.http, &["http/1.1"]), Ok(Some("http/1.1".to_owned())));
    assert_eq!(agreed(at.grpc, &["http/1.1", "h2"]), Ok(Some("h2".to_owned())));
    assert!(agreed(at.grpc, &["http/1.1"]).unwrap_err().contains("NoApplicationProtocol"));
    assert_eq!(agreed(at.resp, &[]), Ok(None));
}

#[test]
fn clients_are_asked_for_their_certificate_on_every_wire() {
    let certificates = Certificates::new();
    let (desk, at) = with_tls(&certificates, true);
    let [known, nobody, stranger] =
        [Papers::of_a_client(&certificates), Papers::trusting(&certificates), Papers::of_a_stranger(&certificates)];
    assert_eq!(answered(&desk, &at, &known), [true; 3]);
    assert_eq!(answered(&desk, &at, &nobody), [false; 3]);
    assert_eq!(answered(&desk, &at, &stranger), [false; 3]);
    let ping = |papers| redis_cli(at.resp.unwrap(), papers, &["PING"]);
    assert_eq!(ping(&known).as_deref(), Ok("PONG\n"));
    assert!(ping(&nobody).is_err() && ping(&stranger).is_err());
}

#[test]
fn certificates_are_read_again_while_connections_stand() {
    let (first, second) = (Certificates::new(), Certificates::new());
    let (desk, at) = with_tls(&first, false);
    let [old, new] = [&first, &second].map(Papers::trusting);
    let mut http = Line::open(at.http.unwrap(), &old, &[]);
    let mut resp = Line::open(at.resp.unwrap(), &old, &[]);
    let mut grpc = desk.runtime.block_on(Rls::open(at.grpc.unwrap(), &old)).unwrap();
    let mut all_answer = || {
        assert!(http.auth().unwrap().starts_with("HTTP/1.1 200"));
        assert_eq!(resp.ping().unwrap(), "+PONG\r\n");
        desk.runtime.block_on(grpc.ask()).unwrap();
    };
    all_answer();
    fs::copy(second.server_key(), desk.path("key.pem")).unwrap();
    fs::copy(second.server_cert(), desk.path("cert.pem")).unwrap();
    wait_until("the new certificate", Duration::from_secs(20), || answered(&desk, &at, &new) == [true; 3]);
    assert_eq!(answered(&desk, &at, &old), [false; 3], "newcomers are shown the new one");
    all_answer();
}

/// Half a certificate, as a file is while it is written: what was there stays in force, and the next one is taken.
#[test]
fn a_certificate_that_cannot_be_read_changes_nothing() {
    let (first, second) = (Certificates::new(), Certificates::new());
    let (desk, at) = with_tls(&first, false);
    desk.write("cert.pem", "-----BEGIN CERTIFICATE-----\n");
    let [old, new] = [&first, &second].map(Papers::trusting);
    let failed = r#"tollgate_secret_reloads_total{what="certificates",outcome="failed"}"#;
    wait_until("it is told", Duration::from_secs(20), || desk.metric(failed) == Some(1.0));
    let ready = desk.admin_get("/readyz");
    assert!(ready.status == 200 && ready.body.contains("the certificates could not be read again"), "{}", ready.body);
    (0..5).for_each(|_| assert_eq!(answered(&desk, &at, &old), [true; 3]));
    fs::copy(second.server_key(), desk.path("key.pem")).unwrap();
    fs::copy(second.server_cert(), desk.path("cert.pem")).unwrap();
    wait_until("the new certificate", Duration::from_secs(20), || answered(&desk, &at, &new) == [true; 3]);
}
