//! Tokens, and secrets that stay secret.

use std::{fs, time::Duration};

use tollgate_server::{
    config::ServerConfig,
    security::{RequiredSecret, Secret},
};
use tollgate_testkit::servers::wait_until;

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
    assert_eq!(desk.metric("tollgate_refused_tokens_total{wire=\"http\"}"), Some(3.0));
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

/// Whoever revokes a token and makes a mistake has revoked nothing, and should know.
#[test]
fn tokens_that_cannot_be_read_again_are_told_until_they_can() {
    let desk = with_tokens();
    let failed = r#"tollgate_secret_reloads_total{what="tokens",outcome="failed"}"#;
    assert_eq!(desk.metric(failed), Some(0.0), "something to compare the first failure with");
    desk.write("tokens", "edge too-short-canary\n");
    wait_until("the mistake", Duration::from_secs(20), || desk.metric(failed) == Some(1.0));
    let ready = desk.admin_get("/readyz");
    assert_eq!(ready.status, 200, "the tokens before are tokens");
    assert!(
        ready.body.contains("the tokens could not be read again") && ready.body.contains("tokens:1"),
        "{}",
        ready.body
    );
    assert!(!ready.body.contains("canary"), "{}", ready.body);
    desk.write("tokens", "edge another-0123456789 api\n");
    wait_until("the new token", Duration::from_secs(20), || bearing(&desk, "another-0123456789", U) == 200);
    wait_until("nothing to tell", Duration::from_secs(20), || !desk.admin_get("/readyz").body.contains("tokens"));
    assert_eq!(desk.metric(r#"tollgate_secret_reloads_total{what="tokens",outcome="ok"}"#), Some(1.0));
}

#[test]
fn the_admin_token_is_read_again_when_its_file_changes() {
    let desk = Desk::start(|folder, config| {
        let file = folder.path().join("admin");
        fs::write(&file, "first-0123456789\n").unwrap();
        config.admin_token = Some(Secret::from_file(&file).unwrap());
        config.admin_token_file = Some(file);
    });
    let looks = |token: &str| {
        ask(desk.admin, "GET", "/api/switches", &[("authorization", &format!("Bearer {token}"))], b"").status
    };
    assert_eq!((looks("first-0123456789"), looks("second-0123456789")), (200, 401));
    desk.write("admin", "second-0123456789\n");
    wait_until("the new token", Duration::from_secs(20), || looks("second-0123456789") == 200);
    assert_eq!(looks("first-0123456789"), 401, "the old one is good for nothing");
    desk.write("admin", "\n");
    wait_until("the mistake", Duration::from_secs(20), || desk.admin_get("/readyz").body.contains("the admin token"));
    assert_eq!(looks("second-0123456789"), 200, "no token is no way in");
}

#[test]
fn the_secret_of_auth_is_read_again_when_its_file_changes() {
    let desk = Desk::start(|folder, config| {
        let file = folder.path().join("secret");
        fs::write(&file, "first-0123456789\n").unwrap();
        config.auth.secret = RequiredSecret::new(Some(Secret::from_file(&file).unwrap()));
        config.auth_secret_file = Some(file);
    });
    let asks = |secret: &str| desk.get("/v1/auth?cost=0", &[("x-tollgate-secret", secret)]).status;
    assert_eq!((asks("first-0123456789"), asks("second-0123456789")), (200, 403));
    desk.write("secret", "second-0123456789\n");
    wait_until("the new secret", Duration::from_secs(20), || asks("second-0123456789") == 200);
    assert_eq!(asks("first-0123456789"), 403);
    desk.write("secret", "\n");
    wait_until("the mistake", Duration::from_secs(20), || {
        desk.admin_get("/readyz").body.contains("secret of /v1/auth")
    });
    assert_eq!(asks("second-0123456789"), 200, "no secret is no way in");
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
