//! The dashboard, as Chromium shows it.

use tollgate_testkit::servers::{Browser, wait_until};

use crate::server::{PATIENCE, Server};

fn open(server: &Server) -> Browser {
    let browser = Browser::start();
    browser.open(&format!("http://127.0.0.1:{}/", server.admin));
    browser
}

#[track_caller]
fn shows(browser: &Browser, selector: &str, words: &str) {
    let mut last = None;
    wait_until(&format!("{selector} shows {words}"), PATIENCE, || {
        last = browser.text(selector);
        last.as_ref().is_some_and(|text| text.contains(words))
    });
}

#[test]
fn rates_and_refusals_appear_while_they_happen() {
    let server = Server::start(&[], &[]);
    let browser = open(&server);
    shows(&browser, "#verdict", "all is well");
    shows(&browser, "#policies", "token bucket, 3 per 1h");
    shows(&browser, "#no-top", "Nobody has been refused");
    // Until both are seen in one second: newcomers pass, and one is refused for an hour.
    let mut somebody = 0;
    wait_until("rates", PATIENCE, || {
        somebody += 1;
        let key = format!("somebody {somebody}");
        server.check(&key, &[]);
        server.check("greedy", &[]);
        let rate = |selector| browser.text(selector).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
        rate("#rate-allowed") > 0.0 && rate("#rate-refused") > 0.0
    });
    shows(&browser, "#top .key", "greedy");
    wait_until("the refusals are drawn", PATIENCE, || {
        let drawn = browser.script("return document.querySelector('.edge.bad').getAttribute('d')", &[]);
        drawn.as_str().is_some_and(|path| path.contains('L'))
    });
    let title = browser.script("return document.getElementById('chart-title').textContent", &[]);
    assert!(title.as_str().is_some_and(|title| title.contains("refused per second")), "{title}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_switch_turned_on_the_page_changes_decisions() {
    let server = Server::start(&[], &[]);
    let browser = open(&server);
    server.check("u", &[]);
    assert!(server.check("u", &[]).contains("\"deny\""));
    shows(&browser, "#everything-off", "Let everything through");
    browser.click("#everything-off:enabled");
    shows(&browser, "#confirm-text", "all policies");
    assert!(server.check("u", &[]).contains("\"deny\""), "not before it is confirmed");
    browser.click("#confirm-yes");
    shows(&browser, "#verdict", "limits are off");
    assert!(server.check("u", &[]).contains("switched_off"));
    browser.click("#everything-off");
    shows(&browser, "#verdict", "all is well");
    assert!(server.check("u", &[]).contains("\"deny\""));

    // One policy, by the keyboard: the button has the focus and keeps it while rows are brought up to date.
    browser.type_into("#policies button", "\u{e007}");
    shows(&browser, "#confirm-title", "shop / per-user");
    browser.click("#confirm-yes");
    shows(&browser, "#switched", "shop / per-user: only watches");
    assert!(server.check("u", &[]).contains("\"allow\""));
    browser.click("#switched button");
    shows(&browser, "#no-switched", "as their files say");
    assert!(server.check("u", &[]).contains("\"deny\""));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_hostile_key_stays_text() {
    let server = Server::start(&[], &[]);
    let key = "<img src=x onerror=document.title='caught'>";
    server.check(key, &[]);
    server.check(key, &[]);
    let browser = open(&server);
    shows(&browser, "#top .key", key);
    browser.click("#top button");
    shows(&browser, "#override-title", "Numbers of its own");
    browser.click("#override button[value=yes]");
    shows(&browser, "#overrides .key", key);
    shows(&browser, "#overrides", "1000 per 1s");
    assert!(server.check(key, &[]).contains("\"allow\""), "it has numbers of its own");
    let caught = browser.script("return document.querySelectorAll('main img').length + document.title", &[]);
    assert_eq!(caught, "0tollgate");
    browser.click("#overrides button");
    shows(&browser, "#no-overrides", "No key has any");
    assert!(server.check(key, &[]).contains("\"deny\""));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// A rule that its file makes watch: whom it would refuse is listed and marked, and it can be made to refuse.
#[test]
fn a_shadow_rule_is_listed_and_enforced_and_a_key_cannot_reorder_the_page() {
    let server = Server::start(&[], &[]);
    server.write_rules(
        "domain: shop\npolicies: [{ name: per-user, match: { key: \"*\" }, rules: [{ name: few, algorithm: token_bucket, limit: 3, per: 1h, shadow: true }] }]",
    );
    let browser = open(&server);
    shows(&browser, "#policies", "only watches");
    let key = "a\u{202e}b\u{200b}c";
    server.check(key, &[]);
    assert!(server.check(key, &[]).contains("\"allow\""));
    shows(&browser, "#top .key", "a\\u{202e}b\\u{200b}c");
    shows(&browser, "#top", "would refuse");
    browser.click("#policies button");
    shows(&browser, "#confirm-text", "shadow");
    browser.click("#confirm-yes");
    shows(&browser, "#switched", "enforced, though its file says shadow");
    assert!(server.check(key, &[]).contains("\"deny\""));
    browser.click("#switched button");
    browser.click("#confirm-yes");
    shows(&browser, "#no-switched", "as their files say");
    assert!(server.check(key, &[]).contains("\"allow\""));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn an_override_of_a_rule_file_is_shown_and_cannot_be_taken_back_here() {
    let server = Server::start(&[], &[]);
    let browser = open(&server);
    shows(&browser, "#no-overrides", "No key has any");
    let rules = |limit: u64| format!("[{{ name: few, algorithm: token_bucket, limit: {limit}, per: 1h }}]");
    let overrides = format!("[{{ key: acme, until: 2101-01-01T00:00:00Z, rules: {} }}]", rules(77));
    let policy = format!("{{ name: per-user, match: {{ key: \"*\" }}, rules: {}, overrides: {overrides} }}", rules(3));
    server.write_rules(&format!("domain: shop\npolicies: [{policy}]"));
    shows(&browser, "#overrides .key", "acme");
    shows(&browser, "#overrides", "77 per 1h");
    shows(&browser, "#overrides", "in a rule file");
    assert_eq!(browser.script("return document.querySelectorAll('#overrides button').length", &[]), 0);
    assert!(server.check("acme", &[]).contains("\"limit\":77"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_wrong_token_is_asked_for_again() {
    let server = Server::start(&[], &[("TOLLGATE_ADMIN_TOKEN", "only-for-operators")]);
    let browser = open(&server);
    shows(&browser, "#token-text", "TOLLGATE_ADMIN_TOKEN");
    assert_eq!(browser.text("#policies").as_deref(), Some(""), "nothing is shown before");
    browser.type_into("#token-input", "guessed\u{e007}");
    shows(&browser, "#token-text", "not taken");
    browser.type_into("#token-input", "only-for-operators\u{e007}");
    shows(&browser, "#policies", "per-user");
    shows(&browser, "#verdict", "all is well");
}

#[test]
fn mistakes_in_the_rules_and_a_store_that_is_away_are_told() {
    let server = Server::start(&["--store", "redis://127.0.0.1:1"], &[]);
    let browser = open(&server);
    // A failure is news for five seconds; it takes requests to know that it lasts.
    wait_until("the store is said to be away", PATIENCE, || {
        server.check("u", &[]);
        let alerts = browser.text("#alerts").unwrap_or_default();
        alerts.contains("The store does not answer") && browser.text("#verdict").as_deref() == Some("store is away")
    });
    server.write_rules("domain: shop\npolicies: [{ name: per-user, match: { key: \"*\" }, rules: [{ name: few, algorithm: token_bucket, limit: 0, per: 1h }] }]");
    shows(&browser, "#alerts", "limit is 0");
    shows(&browser, "#rules", "see above");
}
