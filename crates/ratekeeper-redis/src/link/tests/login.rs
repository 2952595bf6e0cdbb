//! Connection setup: TLS, users, passwords, databases.

use ratekeeper_testkit::servers::{Acl, RedisServer};
#[cfg(feature = "tls")]
use ratekeeper_testkit::servers::{Certificates, ClientCertificate};

use super::support::*;
use crate::link::{error::NotExecuted, *};

/// The rights that the link and its scripts need.
const LEAST_RIGHTS: &str = "~rk:* +evalsha +eval +ping +time +incr";

async fn refusal(url: &str) -> String {
    Bench::patient(url).count_patiently("rk:k").await.unwrap_err().to_string()
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_trusts_only_the_given_authority() {
    let certificates = Certificates::new();
    let server = RedisServer::with().tls(&certificates, ClientCertificate::NotAsked).start();
    let url = |ca: std::path::PathBuf| format!("{}?ca={}", server.url(), ca.display());
    assert_eq!(Bench::patient(&url(certificates.ca())).count_patiently("rk:k").await, Ok(1));

    let message = refusal(&url(certificates.wrong_ca())).await;
    assert!(message.contains("TLS failed") && message.contains("UnknownIssuer"), "{message}");
    let message = refusal(&server.url()).await;
    assert!(message.contains("TLS failed"), "the system's authorities do not know it either: {message}");
    let message = refusal(&url("/nowhere/ca.pem".into())).await;
    assert!(message.contains("/nowhere/ca.pem"), "{message}");
    let message = refusal(&format!("redis://{}", server.address())).await;
    assert!(message.contains("no connection"), "a plain connection to a TLS port: {message}");
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_is_sent_if_the_server_requests_one() {
    let certificates = Certificates::new();
    let server = RedisServer::with().tls(&certificates, ClientCertificate::Required).start();
    let base = format!("{}?ca={}", server.url(), certificates.ca().display());
    let own = format!("&cert={}&key={}", certificates.client_cert().display(), certificates.client_key().display());
    assert_eq!(Bench::patient(&format!("{base}{own}")).count_patiently("rk:k").await, Ok(1));

    let message = refusal(&base).await;
    // The server sends the reason and closes; a client that is still writing may see the close first.
    let is_reported = message.contains("ertificate") || message.contains("the connection was lost");
    assert!(message.contains("no connection") && is_reported, "{message}");
    let untrusted =
        format!("&cert={}&key={}", certificates.untrusted_cert().display(), certificates.untrusted_key().display());
    let message = refusal(&format!("{base}{untrusted}")).await;
    assert!(message.contains("no connection"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_least_rights_suffices() {
    let server = RedisServer::with().acl(Acl::new().user("app", "s3cret", LEAST_RIGHTS)).start();
    let bench = Bench::patient(&server.url_as("app", "s3cret"));
    assert_eq!(bench.count_patiently("rk:k").await, Ok(1));
    let error = bench.count_patiently("other:k").await.unwrap_err();
    assert!(matches!(&error, CallError::Refused { code, .. } if code == "NOPERM"), "{error}");

    let message = refusal(&server.url_as("app", "wr0ng")).await;
    assert!(message.contains("WRONGPASS") && !message.contains("wr0ng"), "{message}");
    let message = refusal(&format!("redis://{}", server.address())).await;
    assert!(message.contains("NOAUTH"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forbidden_command_is_not_repeated_on_reconnect() {
    let server = RedisServer::with().acl(Acl::new().user("app", "pw", LEAST_RIGHTS)).start();
    let bench = Bench::patient(&server.url_as("app", "pw"));
    let denials =
        || server.command(&["ACL", "LOG"]).items().iter().map(|entry| format!("{entry:?}")).collect::<Vec<_>>();
    bench.count_patiently("rk:k").await.unwrap();
    let _ = server.command(&["ACL", "LOG", "RESET"]).expect_ok();
    let _ = server.command(&["CLIENT", "KILL", "USER", "app"]).expect_ok();
    bench.until_it_works("rk:k", SECOND + SLACK).await;
    assert!(denials().iter().all(|denial| !denial.contains("client")), "{:?}", denials());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_without_a_user_and_a_database_number_are_accepted() {
    let server = RedisServer::with().password("open:sesame").start();
    let url = format!("redis://:open%3Asesame@{}/7", server.address());
    let bench = Bench::patient(&url);
    assert_eq!(bench.count_patiently("k").await, Ok(1));
    assert_eq!(server.command(&["EXISTS", "k"]).integer(), 0, "not in database 0");
    let _ = server.command(&["SWAPDB", "0", "7"]).expect_ok();
    assert_eq!(server.command(&["GET", "k"]).integer(), 1);

    let message = refusal(&format!("redis://:open%3Asesame@{}/99", server.address())).await;
    assert!(message.contains("DB index is out of range"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_clients_is_reported() {
    let server = RedisServer::with().config("maxclients", "1").start();
    let first = Bench::patient(&server.url());
    assert_eq!(first.count_patiently("k").await, Ok(1));
    let error = Bench::patient(&server.url()).count_patiently("k").await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::NotExecuted { why: NotExecuted::TooManyClients | NotExecuted::Unreachable { .. }, .. }
        ),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_link_sets_its_client_name() {
    let server = RedisServer::start();
    let bench = Bench::patient(&server.url());
    bench.count_patiently("k").await.unwrap();
    let clients = server.command(&["CLIENT", "LIST"]).text();
    assert!(clients.contains("name=ratekeeper"), "{clients}");
}

/// A server that does not know AUTH echoes its arguments; the error does not contain them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_echoed_by_the_server_are_not_reported() {
    let server = RedisServer::with().config("rename-command", "AUTH \"\"").start();
    let message = refusal(&format!("redis://some-user:S3cret@{}", server.address())).await;
    assert!(message.contains("unknown command") && message.contains("AUTH"), "{message}");
    assert!(!message.contains("S3cret") && !message.contains("some-user"), "{message}");
}
