//! A password in an address is repeated by no command, however the address is mistyped.

use crate::{desk::Desk, serve::RULES};

/// Addresses with a password that no reader would split as it was meant, and some that are not read for other reasons.
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
fn keeps_the_secret(desk: &Desk, words: &[&str]) -> String {
    let run = desk.run(words);
    assert_eq!(run.code, 2, "{words:?}: {}{}", run.out, run.complaints);
    let shown = format!("{}{}", run.out, run.complaints);
    assert!(!shown.contains("S3c") && !shown.contains("3cret"), "{words:?}: {shown}");
    shown
}

#[test]
fn no_command_repeats_the_password_of_a_store() {
    for address in ADDRESSES {
        let desk = Desk::new().file("rules.yaml", RULES).requests("at_ms,key\n0,u\n").file("store", address);
        let shown = [
            keeps_the_secret(&desk, &["doctor", address]),
            keeps_the_secret(&desk, &["serve", "--store", address, "--http", "0"]),
            keeps_the_secret(&desk, &["serve", "--store-file", "store", "--http", "0"]),
            keeps_the_secret(&desk, &["check", "api", "u", "--store", address, "--rules", "rules.yaml"]),
            desk.simulate(&["--store", address]).complaints,
        ];
        let has_remedy = |text: &str| ["%2F", "redis://", "password@host"].iter().any(|words| text.contains(words));
        assert!(shown.iter().all(|text| has_remedy(text)), "{shown:?}");
        assert!(!shown[4].contains("S3cret"), "{}", shown[4]);
        // Arguments that the parser itself complains of.
        keeps_the_secret(&desk, &["serve", address]);
        keeps_the_secret(&desk, &[address]);
        keeps_the_secret(&desk, &["serve", "--http", address]);
    }
}

#[test]
fn no_command_repeats_the_password_of_a_server() {
    let desk = Desk::new();
    for url in ["http://u:S3cret@127.0.0.1:1", "https://u:S3cret/rest@127.0.0.1:1", "u:S3cret?x@127.0.0.1:1"] {
        keeps_the_secret(&desk, &["check", "api", "u", "--server", url]);
        keeps_the_secret(&desk, &["top", "--admin", url]);
        let help = |words: &[&str], name: &str| {
            let run = desk.command(words).env(name, url).output().unwrap();
            let shown = String::from_utf8_lossy(&run.stdout).into_owned();
            assert!(shown.contains(name) && !shown.contains("S3cret"), "{shown}");
        };
        help(&["check", "--help"], "TOLLGATE_SERVER");
        help(&["top", "--help"], "TOLLGATE_ADMIN_URL");
        help(&["serve", "--help"], "TOLLGATE_OTEL");
        help(&["serve", "--help"], "TOLLGATE_STORE");
    }
}
