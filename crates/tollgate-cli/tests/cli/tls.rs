//! `check` and `top` over TLS, and over TLS that asks for the client's certificate.

use std::path::Path;

use tollgate_testkit::servers::Certificates;

use crate::{
    desk::{Desk, Run},
    running::Running,
};

/// A server on TLS, and the files of its authority.
struct Secured {
    desk: Desk,
    server: Running,
    certificates: Certificates,
}

fn name(file: &Path) -> String {
    file.to_str().unwrap().to_owned()
}

impl Secured {
    fn start(client_ca: bool) -> Self {
        let (desk, certificates) = (Desk::new(), Certificates::new());
        let (cert, key) = (name(&certificates.server_cert()), name(&certificates.server_key()));
        let mut words = vec!["--tls-cert", &cert, "--tls-key", &key, "--admin-tls"];
        let ca = name(&certificates.ca());
        if client_ca {
            words.extend(["--tls-client-ca", &ca]);
        }
        let server = Running::start(&desk, &words);
        Self { desk, server, certificates }
    }

    fn check(&self, scheme: &str, words: &[&str]) -> Run {
        let url = format!("{scheme}://{}", self.server.http());
        self.desk.run(&[&["check", "api", "u", "--server", &url], words].concat())
    }

    fn top(&self, words: &[&str]) -> Run {
        let url = format!("https://{}", self.server.admin());
        self.desk.run(&[&["top", "--count", "1", "--admin", &url], words].concat())
    }
}

#[track_caller]
fn fails(run: &Run, parts: &[&str]) {
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    for part in parts {
        assert!(run.complaints.contains(part), "{part}: {}", run.complaints);
    }
}

#[test]
fn a_server_is_trusted_by_its_authority_and_no_other() {
    let secured = Secured::start(false);
    assert!(secured.server.line("http").contains("https://") && secured.server.line("admin").starts_with("https://"));
    let (ca, wrong) = (name(&secured.certificates.ca()), name(&secured.certificates.wrong_ca()));
    let run = secured.check("https", &["--ca", &ca]);
    assert_eq!((run.code, &run.field("verdict")[0]), (0, &"allow".into()), "{}", run.complaints);
    let run = secured.top(&["--ca", &ca]);
    assert!(run.code == 0 && run.out.contains("api/per-key"), "{}", run.complaints);
    let mut by_variable = secured.desk.command(&["check", "api", "u"]);
    by_variable.env("TOLLGATE_SERVER", format!("https://{}", secured.server.http())).env("TOLLGATE_CA", &ca);
    assert!(by_variable.status().unwrap().success());

    fails(&secured.check("https", &["--ca", &wrong]), &["signed by nobody whom we trust", "--ca FILE"]);
    fails(&secured.check("https", &[]), &["signed by nobody whom we trust"]);
    fails(&secured.top(&["--ca", &wrong]), &["signed by nobody whom we trust"]);
}

/// The test's certificates are for `localhost` and `127.0.0.1`; this server listens on another loopback address as well.
#[test]
fn a_certificate_for_another_name_is_not_enough() {
    let (desk, files) = (Desk::new(), Certificates::new());
    let (cert, key, ca) = (name(&files.server_cert()), name(&files.server_key()), name(&files.ca()));
    let words = ["--http", "127.0.0.1:0", "--admin", "127.0.0.2:0", "--grpc", "off", "--resp", "off", "--admin-tls"];
    let server =
        Running::launch(&desk, &[&["serve", "--tls-cert", &cert, "--tls-key", &key], &words[..]].concat(), &[]);
    let (_, port) = server.http().rsplit_once(':').unwrap();
    let by_name = format!("https://localhost:{port}");
    assert_eq!(desk.run(&["check", "api", "u", "--ca", &ca, "--server", &by_name]).code, 0);
    let elsewhere = format!("https://{}", server.admin());
    let run = desk.run(&["top", "--count", "1", "--ca", &ca, "--admin", &elsewhere]);
    fails(&run, &["https://127.0.0.2:", "its certificate cannot be trusted", "not valid for name \"127.0.0.2\""]);
}

#[test]
fn a_server_that_asks_for_certificates_gets_one() {
    let secured = Secured::start(true);
    let files = &secured.certificates;
    let (ca, cert, key) = (name(&files.ca()), name(&files.client_cert()), name(&files.client_key()));
    let run = secured.check("https", &["--ca", &ca, "--cert", &cert, "--key", &key]);
    assert_eq!(run.code, 0, "{}", run.complaints);
    let run = secured.top(&["--ca", &ca, "--cert", &cert, "--key", &key]);
    assert_eq!(run.code, 0, "{}", run.complaints);

    fails(&secured.check("https", &["--ca", &ca]), &["it ended the conversation", "--cert and --key"]);
    let (cert, key) = (name(&files.stranger_cert()), name(&files.stranger_key()));
    fails(&secured.check("https", &["--ca", &ca, "--cert", &cert, "--key", &key]), &["it ended the conversation"]);
}

#[test]
fn files_that_are_no_certificates_are_told_by_their_flag() {
    let desk = Desk::new().file("rubbish", "rubbish");
    let files = Certificates::new();
    let (ca, cert, key) = (name(&files.ca()), name(&files.client_cert()), name(&files.client_key()));
    let other = name(&files.stranger_key());
    for (words, parts) in [
        (&["--ca", "none"][..], &["--ca none: "][..]),
        (&["--ca", "rubbish"], &["--ca rubbish: has no certificate in it"]),
        (&["--ca", &ca, "--cert", &cert, "--key", "rubbish"], &["--key rubbish: is no private key"]),
        (&["--ca", &ca, "--cert", &cert, "--key", &other], &["--cert ", "does not go with the key"]),
        (&["--ca", &ca, "--cert", &cert], &["--key"]),
        (&["--ca", &ca, "--key", &key], &["--cert"]),
    ] {
        fails(&desk.run(&[&["check", "api", "u", "--server", "https://127.0.0.1:1"], words].concat()), parts);
    }
}

#[test]
fn whoever_mistakes_one_scheme_for_the_other_is_told() {
    let secured = Secured::start(false);
    fails(&secured.check("http", &[]), &["not HTTP", "use https://"]);
    let plain = Running::start(&secured.desk, &[]);
    let ca = name(&secured.certificates.ca());
    let url = format!("https://{}", plain.http());
    fails(&secured.desk.run(&["check", "api", "u", "--server", &url, "--ca", &ca]), &["not TLS", "use http://"]);
}
