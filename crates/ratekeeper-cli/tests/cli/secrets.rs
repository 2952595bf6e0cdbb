//! No command prints a password of an address, even of a malformed one.

use crate::{fixture::Fixture, serve::RULES};

/// Malformed addresses with a password, ambiguous ones included.
const ADDRESSES: [&str; 9] = [
    "redis://u:S3cret/rest@127.0.0.1:1",
    "redis://u:S3cret?rest@127.0.0.1:1",
    "redis://u:1/S3cret@127.0.0.1:1",
    "redis+sentinel://u:S3cret/rest@127.0.0.1:1/name",
    "redis+sentinel://u:1/S3cret@127.0.0.1:1",
    "redis+cluster://u:S3cret/rest@127.0.0.1:1,127.0.0.1:2",
    "redis://S3cret@127.0.0.1:1",
    "S3cret://u@127.0.0.1:1",
    "u:S3cret@127.0.0.1:1",
];

#[track_caller]
fn output_without_secret(fixture: &Fixture, words: &[&str]) -> String {
    let run = fixture.run(words);
    assert_eq!(run.code, 2, "{words:?}: {}{}", run.stdout, run.stderr);
    let shown = format!("{}{}", run.stdout, run.stderr);
    assert!(!shown.contains("S3c") && !shown.contains("3cret"), "{words:?}: {shown}");
    shown
}

#[test]
fn no_command_prints_the_password_of_a_store() {
    for address in ADDRESSES {
        let fixture = Fixture::new().file("rules.yaml", RULES).requests("at_ms,key\n0,u\n").file("store", address);
        let shown = [
            output_without_secret(&fixture, &["doctor", address]),
            output_without_secret(&fixture, &["serve", "--store", address, "--http", "0"]),
            output_without_secret(&fixture, &["serve", "--store-file", "store", "--http", "0"]),
            output_without_secret(&fixture, &["check", "api", "u", "--store", address, "--rules", "rules.yaml"]),
            fixture.simulate(&["--store", address]).stderr,
        ];
        let has_remedy = |text: &str| ["%2F", "redis://", "password@host"].iter().any(|words| text.contains(words));
        assert!(shown.iter().all(|text| has_remedy(text)), "{shown:?}");
        assert!(!shown[4].contains("S3cret"), "{}", shown[4]);
        // Arguments that clap rejects.
        output_without_secret(&fixture, &["serve", address]);
        output_without_secret(&fixture, &[address]);
        output_without_secret(&fixture, &["serve", "--http", address]);
    }
}

#[test]
fn no_command_prints_the_password_of_a_server() {
    let fixture = Fixture::new();
    for url in ["http://u:S3cret@127.0.0.1:1", "https://u:S3cret/rest@127.0.0.1:1", "u:S3cret?x@127.0.0.1:1"] {
        output_without_secret(&fixture, &["check", "api", "u", "--server", url]);
        output_without_secret(&fixture, &["top", "--admin", url]);
        let help = |words: &[&str], name: &str| {
            let run = fixture.command(words).env(name, url).output().unwrap();
            let shown = String::from_utf8_lossy(&run.stdout).into_owned();
            assert!(shown.contains(name) && !shown.contains("S3cret"), "{shown}");
        };
        help(&["check", "--help"], "RATEKEEPER_SERVER");
        help(&["top", "--help"], "RATEKEEPER_ADMIN_URL");
        help(&["serve", "--help"], "RATEKEEPER_OTEL");
        help(&["serve", "--help"], "RATEKEEPER_STORE");
    }
}
