//! Access control of test servers: passwords, users and certificates.
//!
//! TLS is tried with `redis-cli`, which has nothing in common with the libraries we use ourselves.

use std::{path::Path, process::Command};

use ratekeeper_testkit::servers::{Acl, Certificates, ClientCertificate, Part, RedisServer, Reply, require};

use crate::client::Client;

#[test]
fn a_password_is_demanded_and_part_of_the_url() {
    let server = RedisServer::with().password("hush").start();
    assert_eq!(server.url(), format!("redis://:hush@127.0.0.1:{}", server.port()));
    let mut client = Client::connect(server.port());
    client.ask("PING", "-NOAUTH Authentication required.\r\n");
    client.ask("AUTH hush", "+OK\r\n");
    client.ask("PING", "+PONG\r\n");
    assert_eq!(server.command(&["PING"]), Reply::Status("PONG".into()), "the test kit knows the password");
}

#[test]
fn only_listed_users_get_in_and_only_as_far_as_their_rules_say() {
    let acl = Acl::new().user("limiter", "secret", "~rk:* +set").user("without_rights", "secret", "");
    let server = RedisServer::with().acl(acl).start();
    assert_eq!(server.url_as("limiter", "secret"), format!("redis://limiter:secret@127.0.0.1:{}", server.port()));

    let mut client = Client::connect(server.port());
    client.ask("SET rk:a 1", "-NOAUTH Authentication required.\r\n");
    client.ask("AUTH limiter secret", "+OK\r\n");
    client.ask("SET rk:a 1", "+OK\r\n");
    client.ask("SET other 1", "-NOPERM");

    let mut client = Client::connect(server.port());
    client.ask("AUTH without_rights secret", "+OK\r\n");
    client.ask("SET rk:a 1", "-NOPERM");
    assert_eq!(server.command(&["GET", "rk:a"]), Reply::Bulk("1".into()), "the test kit may do all");
}

/// `PING` through TLS; whether it came back.
fn ping(server: &RedisServer, ca: &Path, identity: Option<(&Path, &Path)>) -> bool {
    let mut cli = Command::new(require(Part::RedisCli));
    cli.args(["-h", "127.0.0.1", "-p", &server.port().to_string(), "--tls", "--cacert"]).arg(ca);
    if let Some((cert, key)) = identity {
        cli.arg("--cert").arg(cert).arg("--key").arg(key);
    }
    cli.arg("PING").output().unwrap().stdout == b"PONG\n"
}

#[test]
fn a_tls_server_is_trusted_by_its_own_authority_only() {
    let certificates = Certificates::new();
    let server = RedisServer::with().tls(&certificates, ClientCertificate::NotAsked).start();
    assert_eq!(server.url(), format!("rediss://127.0.0.1:{}", server.port()));
    assert!(ping(&server, &certificates.ca(), None));
    assert!(!ping(&server, &certificates.wrong_ca(), None));
}

#[test]
fn a_client_certificate_is_demanded_of_the_right_authority() {
    let certificates = Certificates::new();
    let server = RedisServer::with().tls(&certificates, ClientCertificate::Required).start();
    let ca = certificates.ca();
    assert!(ping(&server, &ca, Some((&certificates.client_cert(), &certificates.client_key()))));
    assert!(!ping(&server, &ca, None));
    assert!(!ping(&server, &ca, Some((&certificates.untrusted_cert(), &certificates.untrusted_key()))));
}
