//! The dashboard in Chromium.

use ratekeeper_testkit::servers::{Browser, RedisServer, wait_until};

use crate::server::{Server, TIMEOUT};

fn open(server: &Server) -> Browser {
    let browser = Browser::start();
    browser.open(&format!("http://127.0.0.1:{}/", server.admin));
    browser
}

#[track_caller]
fn shows(browser: &Browser, selector: &str, words: &str) {
    let mut last = None;
    wait_until(&format!("{selector} shows {words}"), TIMEOUT, || {
        last = browser.text(selector);
        last.as_ref().is_some_and(|text| text.contains(words))
    });
}

#[test]
fn rates_and_denials_are_updated_live() {
    let server = Server::start(&[], &[]);
    let browser = open(&server);
    shows(&browser, "#verdict", "healthy");
    shows(&browser, "#policies", "token bucket, 3 per 1h");
    shows(&browser, "#no-top", "No key has been refused");
    // Until both are seen in one second: new keys are admitted, and one is denied for an hour.
    let mut number = 0;
    wait_until("rates", TIMEOUT, || {
        number += 1;
        let key = format!("new key {number}");
        server.check(&key, &[]);
        server.check("greedy", &[]);
        let rate = |selector| browser.text(selector).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
        rate("#rate-allowed") > 0.0 && rate("#rate-refused") > 0.0
    });
    shows(&browser, "#top .key", "greedy");
    wait_until("the refusals are drawn", TIMEOUT, || {
        let drawn = browser.script("return document.querySelector('.edge.bad').getAttribute('d')", &[]);
        drawn.as_str().is_some_and(|path| path.contains('L'))
    });
    let title = browser.script("return document.getElementById('chart-title').textContent", &[]);
    assert!(title.as_str().is_some_and(|title| title.contains("refused per second")), "{title}");
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}

#[test]
fn a_switch_on_the_page_changes_decisions() {
    let server = Server::start(&[], &[]);
    let browser = open(&server);
    server.check("u", &[]);
    assert!(server.check("u", &[]).contains("\"deny\""));
    shows(&browser, "#everything-off", "Disable all limits");
    browser.click("#everything-off:enabled");
    shows(&browser, "#confirm-text", "all policies");
    assert!(server.check("u", &[]).contains("\"deny\""), "not before it is confirmed");
    browser.click("#confirm-yes");
    shows(&browser, "#verdict", "limits disabled");
    assert!(server.check("u", &[]).contains("switched_off"));
    browser.click("#everything-off");
    shows(&browser, "#verdict", "healthy");
    assert!(server.check("u", &[]).contains("\"deny\""));

    // One policy, by keyboard: the button keeps the focus while rows are updated.
    browser.type_into("#policies button", "\u{e007}");
    shows(&browser, "#confirm-title", "shop / per-user");
    browser.click("#confirm-yes");
    shows(&browser, "#switched", "shop / per-user: shadow");
    assert!(server.check("u", &[]).contains("\"allow\""));
    browser.click("#switched button");
    shows(&browser, "#no-switched", "follow their files");
    assert!(server.check("u", &[]).contains("\"deny\""));
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}

#[test]
fn keys_are_escaped() {
    let server = Server::start(&[], &[]);
    let key = "<img src=x onerror=document.title='caught'>";
    server.check(key, &[]);
    server.check(key, &[]);
    let browser = open(&server);
    shows(&browser, "#top .key", key);
    browser.click("#top button");
    shows(&browser, "#override-title", "Override for one key");
    browser.click("#override button[value=yes]");
    shows(&browser, "#overrides .key", key);
    shows(&browser, "#overrides", "1000 per 1s");
    assert!(server.check(key, &[]).contains("\"allow\""), "the override applies");
    let caught = browser.script("return document.querySelectorAll('main img').length + document.title", &[]);
    assert_eq!(caught, "0ratekeeper");
    browser.click("#overrides button");
    shows(&browser, "#no-overrides", "No overrides");
    assert!(server.check(key, &[]).contains("\"deny\""));
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}

/// A rule in shadow mode: keys it would refuse are listed and marked, and it can be enforced.
#[test]
fn a_shadow_rule_can_be_enforced_and_keys_cannot_reorder_text() {
    let server = Server::start(&[], &[]);
    server.write_rules(
        "domain: shop\npolicies: [{ name: per-user, match: { key: \"*\" }, rules: [{ name: few, algorithm: token_bucket, limit: 3, per: 1h, shadow: true }] }]",
    );
    let browser = open(&server);
    // The badge, because the head of the table has the same word before the rules are reloaded.
    shows(&browser, "#policies .badge", "shadow");
    let key = "a\u{202e}b\u{200b}c";
    server.check(key, &[]);
    assert!(server.check(key, &[]).contains("\"allow\""));
    shows(&browser, "#top .key", "a\\u{202e}b\\u{200b}c");
    shows(&browser, "#top", "shadow");
    browser.click("#policies button");
    shows(&browser, "#confirm-text", "shadow");
    browser.click("#confirm-yes");
    shows(&browser, "#switched", "enforced; its file sets shadow mode");
    assert!(server.check(key, &[]).contains("\"deny\""));
    browser.click("#switched button");
    browser.click("#confirm-yes");
    shows(&browser, "#no-switched", "follow their files");
    assert!(server.check(key, &[]).contains("\"allow\""));
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}

#[test]
fn an_override_of_a_rule_file_is_shown_and_cannot_be_removed_here() {
    let server = Server::start(&[], &[]);
    let browser = open(&server);
    shows(&browser, "#no-overrides", "No overrides");
    let rules = |limit: u64| format!("[{{ name: few, algorithm: token_bucket, limit: {limit}, per: 1h }}]");
    let overrides = format!("[{{ key: acme, until: 2101-01-01T00:00:00Z, rules: {} }}]", rules(77));
    let policy = format!("{{ name: per-user, match: {{ key: \"*\" }}, rules: {}, overrides: {overrides} }}", rules(3));
    server.write_rules(&format!("domain: shop\npolicies: [{policy}]"));
    shows(&browser, "#overrides .key", "acme");
    shows(&browser, "#overrides", "77 per 1h");
    shows(&browser, "#overrides", "in a rule file");
    assert_eq!(browser.script("return document.querySelectorAll('#overrides button').length", &[]), 0);
    assert!(server.check("acme", &[]).contains("\"limit\":77"));
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}

#[test]
fn a_wrong_token_is_asked_for_again() {
    let server = Server::start(&[], &[("RATEKEEPER_ADMIN_TOKEN", "only-for-operators")]);
    let browser = open(&server);
    shows(&browser, "#token-text", "RATEKEEPER_ADMIN_TOKEN");
    assert_eq!(browser.text("#policies").as_deref(), Some(""), "nothing is shown before");
    browser.type_into("#token-input", "guessed\u{e007}");
    shows(&browser, "#token-text", "not accepted");
    browser.type_into("#token-input", "only-for-operators\u{e007}");
    shows(&browser, "#policies", "per-user");
    shows(&browser, "#verdict", "healthy");
}

#[test]
fn mistakes_in_the_rules_and_an_unreachable_store_are_shown() {
    let server = Server::start(&["--store", "redis://127.0.0.1:1"], &[]);
    let browser = open(&server);
    // A failure is shown for five seconds; requests renew it.
    wait_until("the store is said to be away", TIMEOUT, || {
        server.check("u", &[]);
        let alerts = browser.text("#alerts").unwrap_or_default();
        alerts.contains("The store is unreachable") && browser.text("#verdict").as_deref() == Some("store unreachable")
    });
    server.write_rules("domain: shop\npolicies: [{ name: per-user, match: { key: \"*\" }, rules: [{ name: few, algorithm: token_bucket, limit: 0, per: 1h }] }]");
    shows(&browser, "#alerts", "limit is 0");
    shows(&browser, "#rules", "yes, see above");
}

/// Decisions by source and held permits are shown with a store in Redis, and prepaid policies are marked.
#[test]
fn sources_are_shown_with_a_shared_store() {
    let redis = RedisServer::start();
    // A deadline that a busy machine keeps, so that the store decides.
    let server = Server::start(&["--store", &redis.url(), "--store-deadline", "20000"], &[]);
    server.write_rules(
        "domain: shop\npolicies: [{ name: per-user, match: { key: \"*\" }, speed: prepaid, rules: [{ name: many, algorithm: token_bucket, limit: 1000, per: 1s }] }]",
    );
    let browser = open(&server);
    shows(&browser, "#policies .badge", "prepaid");
    wait_until("decisions by source", TIMEOUT, || {
        server.check("u", &[]);
        let sources = ["decided by: ", "store ", "permits held: "];
        browser.text("#sources").is_some_and(|text| sources.iter().all(|part| text.contains(part)))
    });
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}
