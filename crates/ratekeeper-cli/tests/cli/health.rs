//! `ratekeeper health`: exit codes by /readyz, at the address that `serve` is given.

use ratekeeper_testkit::servers::wait_until;

use crate::{
    fixture::Fixture,
    serve::RULES,
    server_process::{ServerProcess, TIMEOUT},
};

#[test]
fn a_ready_server_is_healthy_and_a_stopped_one_is_not() {
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let server = ServerProcess::start(&fixture, &["--rules", "rules.yaml"]);
    let admin = server.admin().to_owned();
    for address in [admin.clone(), admin.replace("127.0.0.1", "0.0.0.0"), admin.replace("127.0.0.1:", "")] {
        let run = fixture.run(&["health", "--admin", &address]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{address}");
    }
    // The variable of `serve`, as an image has it.
    let by_variable = fixture.command(&["health", "--live"]).env("RATEKEEPER_ADMIN", &admin).output().unwrap();
    assert!(by_variable.status.success());

    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    let run = fixture.run(&["health", "--admin", &admin]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains(&admin), "{}", run.stderr);
}

#[test]
fn a_draining_server_is_unhealthy_and_the_reason_is_printed() {
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let server = ServerProcess::start(&fixture, &["--rules", "rules.yaml", "--stop-delay", "600"]);
    let admin = server.admin().to_owned();
    server.signal("TERM");
    wait_until("the drain", TIMEOUT, || server.ask_admin("/readyz").status == 503);
    let run = fixture.run(&["health", "--admin", &admin]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("the server is stopping"), "{}", run.stderr);
    assert_eq!(fixture.run(&["health", "--live", "--admin", &admin]).code, 0, "alive until the end");
}

#[test]
fn without_an_admin_port_there_is_a_remedy() {
    let run = Fixture::new().run(&["health", "--admin", "off"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("RATEKEEPER_ADMIN"), "{}", run.stderr);
}
