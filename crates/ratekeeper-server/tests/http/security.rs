//! Tokens and secrets: access, reload, and absence from all output.

use std::{fs, time::Duration};

use ratekeeper_server::{
    config::ServerConfig,
    security::{RequiredSecret, Secret},
};
use ratekeeper_testkit::servers::wait_until;

use crate::{client::ask, fixture::Fixture};

const TOKEN: &str = "canary-0123456789abcdef";
const U: &[u8] = br#"{"domain":"api","key":"u"}"#;

fn with_tokens() -> Fixture {
    Fixture::start(|folder, config| {
        let file = folder.path().join("tokens");
        fs::write(&file, format!("edge {TOKEN} api\nops canary-fedcba9876543210 *\n")).unwrap();
        config.tokens = Some(file);
    })
}

fn bearing(fixture: &Fixture, token: &str, body: &[u8]) -> u16 {
    let value = format!("Bearer {token}");
    ask(fixture.http, "POST", "/v1/check", &[("authorization", &value)], body).status
}

#[test]
fn requests_without_a_token_are_refused() {
    let fixture = with_tokens();
    let reply = ask(fixture.http, "POST", "/v1/check", &[], U);
    reply.is_problem(401, "Bearer");
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    fixture.get("/v1/auth", &[]).is_problem(401, "Bearer");
    assert_eq!(bearing(&fixture, "canary-0123456789abcdeF", U), 401);
    assert_eq!(bearing(&fixture, TOKEN, U), 200);
    assert_eq!(fixture.metric("ratekeeper_refused_tokens_total{wire=\"http\"}"), Some(3.0));
}

#[test]
fn a_token_is_for_its_domains() {
    let fixture = with_tokens();
    let other = br#"{"domain":"other","key":"u"}"#;
    assert_eq!((bearing(&fixture, TOKEN, other), bearing(&fixture, "canary-fedcba9876543210", other)), (403, 200));
    let value = format!("Bearer {TOKEN}");
    assert_eq!(fixture.get("/v1/auth?domain=other", &[("authorization", &value)]).status, 403);
}

#[test]
fn tokens_are_reloaded_when_they_change() {
    let fixture = with_tokens();
    fixture.write("tokens", "edge another-0123456789 api\n");
    wait_until("the new token", Duration::from_secs(20), || bearing(&fixture, "another-0123456789", U) == 200);
    assert_eq!(bearing(&fixture, TOKEN, U), 401, "the old one is good for nothing");
}

/// A token file with a mistake revokes nothing, and the mistake is reported.
#[test]
fn unreadable_tokens_are_reported_until_they_are_fixed() {
    let fixture = with_tokens();
    let failed = r#"ratekeeper_secret_reloads_total{what="tokens",outcome="failed"}"#;
    assert_eq!(fixture.metric(failed), Some(0.0), "something to compare the first failure with");
    fixture.write("tokens", "edge too-short-canary\n");
    wait_until("the mistake", Duration::from_secs(20), || fixture.metric(failed) == Some(1.0));
    let ready = fixture.admin_get("/readyz");
    assert_eq!(ready.status, 200, "the tokens before are tokens");
    assert!(
        ready.body.contains("the tokens could not be reloaded") && ready.body.contains("tokens:1"),
        "{}",
        ready.body
    );
    assert!(!ready.body.contains("canary"), "{}", ready.body);
    fixture.write("tokens", "edge another-0123456789 api\n");
    wait_until("the new token", Duration::from_secs(20), || bearing(&fixture, "another-0123456789", U) == 200);
    wait_until("nothing to tell", Duration::from_secs(20), || !fixture.admin_get("/readyz").body.contains("tokens"));
    assert_eq!(fixture.metric(r#"ratekeeper_secret_reloads_total{what="tokens",outcome="ok"}"#), Some(1.0));
}

#[test]
fn the_admin_token_is_reloaded_when_its_file_changes() {
    let fixture = Fixture::start(|folder, config| {
        let file = folder.path().join("admin");
        fs::write(&file, "first-0123456789\n").unwrap();
        config.admin_token = Some(Secret::from_file(&file).unwrap());
        config.admin_token_file = Some(file);
    });
    let looks = |token: &str| {
        ask(fixture.admin, "GET", "/api/switches", &[("authorization", &format!("Bearer {token}"))], b"").status
    };
    assert_eq!((looks("first-0123456789"), looks("second-0123456789")), (200, 401));
    fixture.write("admin", "second-0123456789\n");
    wait_until("the new token", Duration::from_secs(20), || looks("second-0123456789") == 200);
    assert_eq!(looks("first-0123456789"), 401, "the old one is good for nothing");
    fixture.write("admin", "\n");
    wait_until("the mistake", Duration::from_secs(20), || {
        fixture.admin_get("/readyz").body.contains("the admin token")
    });
    assert_eq!(looks("second-0123456789"), 200, "no token is no way in");
}

#[test]
fn the_secret_of_auth_is_reloaded_when_its_file_changes() {
    let fixture = Fixture::start(|folder, config| {
        let file = folder.path().join("secret");
        fs::write(&file, "first-0123456789\n").unwrap();
        config.auth.secret = RequiredSecret::new(Some(Secret::from_file(&file).unwrap()));
        config.auth_secret_file = Some(file);
    });
    let asks = |secret: &str| fixture.get("/v1/auth?cost=0", &[("x-ratekeeper-secret", secret)]).status;
    assert_eq!((asks("first-0123456789"), asks("second-0123456789")), (200, 403));
    fixture.write("secret", "second-0123456789\n");
    wait_until("the new secret", Duration::from_secs(20), || asks("second-0123456789") == 200);
    assert_eq!(asks("first-0123456789"), 403);
    fixture.write("secret", "\n");
    wait_until("the mistake", Duration::from_secs(20), || {
        fixture.admin_get("/readyz").body.contains("secret of /v1/auth")
    });
    assert_eq!(asks("second-0123456789"), 200, "no secret is no way in");
}

#[test]
fn the_admin_port_has_a_separate_token() {
    let fixture = Fixture::with(|config| config.admin_token = Some(Secret::new(TOKEN)));
    for path in ["/metrics", "/api/state", "/api/switches"] {
        fixture.admin_get(path).is_problem(401, "Bearer");
        let value = format!("Bearer {TOKEN}");
        assert_eq!(ask(fixture.admin, "GET", path, &[("authorization", &value)], b"").status, 200);
    }
    assert_eq!(
        (fixture.admin_get("/healthz").status, fixture.admin_get("/readyz").status),
        (200, 200),
        "probes have no token"
    );
}

/// No output contains a secret.
#[test]
fn secrets_are_never_printed() {
    let config = ServerConfig {
        store: Secret::new("redis://app:canary-password@127.0.0.1:1"),
        admin_token: Some(Secret::new("canary-admin")),
        ..ServerConfig::default()
    };
    assert!(!format!("{config:?}").contains("canary"));
    let fixture = Fixture::start(|folder, config| {
        let file = folder.path().join("tokens");
        fs::write(&file, format!("edge {TOKEN} *\n")).unwrap();
        config.tokens = Some(file);
        // No server listens there. Rules decide by their fallback, and the failure is reported.
        config.store = Secret::new("redis://app:canary-password@127.0.0.1:1");
        config.admin_token = None;
    });
    let value = format!("Bearer {TOKEN}");
    let mut output = ask(fixture.http, "POST", "/v1/check", &[("authorization", &value)], U).body;
    output.push_str(&ask(fixture.http, "POST", "/v1/reset", &[("authorization", &value)], U).body);
    for path in ["/metrics", "/readyz", "/api/state", "/"] {
        output.push_str(&fixture.admin_get(path).body);
    }
    output.push_str(&format!("{:?}", fixture.server));
    assert!(output.contains("127.0.0.1:1"), "the failure is reported: {output}");
    assert!(!output.contains("canary"), "{output}");
}
