//! `check` and `top` over TLS, with and without client certificates.

use std::path::Path;

use ratekeeper_testkit::servers::Certificates;

use crate::{
    fixture::{Fixture, Run},
    server_process::ServerProcess,
};

/// A server with TLS and the files of its authority.
struct Secured {
    fixture: Fixture,
    server: ServerProcess,
    certificates: Certificates,
}

fn name(file: &Path) -> String {
    file.to_str().unwrap().to_owned()
}

impl Secured {
    fn start(client_ca: bool) -> Self {
        let (fixture, certificates) = (Fixture::new(), Certificates::new());
        let (cert, key) = (name(&certificates.server_cert()), name(&certificates.server_key()));
        let mut words = vec!["--tls-cert", &cert, "--tls-key", &key, "--admin-tls"];
        let ca = name(&certificates.ca());
        if client_ca {
            words.extend(["--tls-client-ca", &ca]);
        }
        let server = ServerProcess::start(&fixture, &words);
        Self { fixture, server, certificates }
    }

    fn check(&self, scheme: &str, words: &[&str]) -> Run {
        let url = format!("{scheme}://{}", self.server.http());
        self.fixture.run(&[&["check", "api", "u", "--server", &url], words].concat())
    }

    fn top(&self, words: &[&str]) -> Run {
        let url = format!("https://{}", self.server.admin());
        self.fixture.run(&[&["top", "--count", "1", "--admin", &url], words].concat())
    }
}

#[track_caller]
fn fails(run: &Run, parts: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    for part in parts {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
}

#[test]
fn a_server_is_trusted_by_its_authority_only() {
    let secured = Secured::start(false);
    assert!(secured.server.line("http").contains("https://") && secured.server.line("admin").starts_with("https://"));
    let (ca, wrong) = (name(&secured.certificates.ca()), name(&secured.certificates.wrong_ca()));
    let run = secured.check("https", &["--ca", &ca]);
    assert_eq!((run.code, &run.field("verdict")[0]), (0, &"allow".into()), "{}", run.stderr);
    let run = secured.top(&["--ca", &ca]);
    assert!(run.code == 0 && run.stdout.contains("api/per-key"), "{}", run.stderr);
    let mut by_variable = secured.fixture.command(&["check", "api", "u"]);
    by_variable.env("RATEKEEPER_SERVER", format!("https://{}", secured.server.http())).env("RATEKEEPER_CA", &ca);
    assert!(by_variable.status().unwrap().success());

    fails(&secured.check("https", &["--ca", &wrong]), &["signed by an unknown authority", "--ca FILE"]);
    fails(&secured.check("https", &[]), &["signed by an unknown authority"]);
    fails(&secured.top(&["--ca", &wrong]), &["signed by an unknown authority"]);
}

/// The certificate is for `localhost` and `127.0.0.1`; this server is called at another loopback address.
#[test]
fn a_certificate_for_another_name_is_refused() {
    let (fixture, files) = (Fixture::new(), Certificates::new());
    let (cert, key, ca) = (name(&files.server_cert()), name(&files.server_key()), name(&files.ca()));
    let words = ["--http", "127.0.0.1:0", "--admin", "127.0.0.2:0", "--grpc", "off", "--resp", "off", "--admin-tls"];
    let server = ServerProcess::launch(
        &fixture,
        &[&["serve", "--tls-cert", &cert, "--tls-key", &key], &words[..]].concat(),
        &[],
    );
    let (_, port) = server.http().rsplit_once(':').unwrap();
    let by_name = format!("https://localhost:{port}");
    assert_eq!(fixture.run(&["check", "api", "u", "--ca", &ca, "--server", &by_name]).code, 0);
    let elsewhere = format!("https://{}", server.admin());
    let run = fixture.run(&["top", "--count", "1", "--ca", &ca, "--admin", &elsewhere]);
    fails(&run, &["https://127.0.0.2:", "its certificate cannot be trusted", "not valid for name \"127.0.0.2\""]);
}

#[test]
fn a_client_certificate_is_sent() {
    let secured = Secured::start(true);
    let files = &secured.certificates;
    let (ca, cert, key) = (name(&files.ca()), name(&files.client_cert()), name(&files.client_key()));
    let run = secured.check("https", &["--ca", &ca, "--cert", &cert, "--key", &key]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run = secured.top(&["--ca", &ca, "--cert", &cert, "--key", &key]);
    assert_eq!(run.code, 0, "{}", run.stderr);

    fails(
        &secured.check("https", &["--ca", &ca]),
        &["if it requires client certificates, give one with --cert and --key"],
    );
    let (cert, key) = (name(&files.untrusted_cert()), name(&files.untrusted_key()));
    fails(
        &secured.check("https", &["--ca", &ca, "--cert", &cert, "--key", &key]),
        &["if it requires client certificates, give one with --cert and --key"],
    );
}

#[test]
fn malformed_certificate_files_are_errors_with_their_flag() {
    let fixture = Fixture::new().file("garbage", "garbage");
    let files = Certificates::new();
    let (ca, cert, key) = (name(&files.ca()), name(&files.client_cert()), name(&files.client_key()));
    let other = name(&files.untrusted_key());
    for (words, parts) in [
        (&["--ca", "none"][..], &["--ca none: "][..]),
        (&["--ca", "garbage"], &["--ca garbage: contains no certificate"]),
        (&["--ca", &ca, "--cert", &cert, "--key", "garbage"], &["--key garbage: is not a private key"]),
        (&["--ca", &ca, "--cert", &cert, "--key", &other], &["--cert ", "does not match the key"]),
        (&["--ca", &ca, "--cert", &cert], &["--key"]),
        (&["--ca", &ca, "--key", &key], &["--cert"]),
    ] {
        fails(&fixture.run(&[&["check", "api", "u", "--server", "https://127.0.0.1:1"], words].concat()), parts);
    }
}

#[test]
fn the_wrong_scheme_is_an_error_with_a_remedy() {
    let secured = Secured::start(false);
    fails(&secured.check("http", &[]), &["not HTTP", "use https://"]);
    let plain = ServerProcess::start(&secured.fixture, &[]);
    let ca = name(&secured.certificates.ca());
    let url = format!("https://{}", plain.http());
    fails(&secured.fixture.run(&["check", "api", "u", "--server", &url, "--ca", &ca]), &["not TLS", "use http://"]);
}
