//! Notifications for systemd, over a real datagram socket: a path, and a name in the abstract namespace.

use std::{
    fs,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
};

use crate::{
    fixture::Fixture,
    serve::{FREE, RULES},
    server_process::{ServerProcess, TIMEOUT},
};

fn next(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 512];
    let length = socket.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

#[test]
fn systemd_learns_of_ready_reloading_and_stopping() {
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let path = fixture.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let notify = [("NOTIFY_SOCKET", path.to_str().unwrap())];
    let server = ServerProcess::launch(
        &fixture,
        &["serve", "--rules", "rules.yaml"],
        &FREE.into_iter().chain(notify).collect::<Vec<_>>(),
    );
    assert_eq!(next(&socket), "READY=1\nSTATUS=Serving");
    assert_eq!(server.ask_admin("/readyz").status, 200, "the ports were open before");

    server.signal("HUP");
    let reloading = next(&socket);
    let micros = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().split('\n').next().unwrap();
    assert!(micros.parse::<u64>().unwrap() > 0, "{reloading}");
    assert_eq!(next(&socket), "READY=1\nSTATUS=Serving");

    // A mistake ends the reload all the same, and the status has it.
    fs::write(fixture.path("rules.yaml"), RULES.replace("limit: 2", "limit: 0")).unwrap();
    server.signal("HUP");
    assert!(next(&socket).starts_with("RELOADING=1\n"));
    assert_eq!(next(&socket), "READY=1\nSTATUS=Serving; a reload failed, see the log");

    server.signal("TERM");
    assert!(next(&socket).starts_with("STOPPING=1\n"));
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
}

#[test]
fn an_abstract_socket_and_an_unusable_one() {
    let fixture = Fixture::new().file("rules.yaml", RULES);
    let name = format!("ratekeeper-test-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let started = |name: &str| {
        let notify = [("NOTIFY_SOCKET", name)];
        let variables: Vec<_> = FREE.into_iter().chain(notify).collect();
        ServerProcess::launch(&fixture, &["serve", "--rules", "rules.yaml"], &variables)
    };
    let server = started(&format!("@{name}"));
    assert_eq!(next(&socket), "READY=1\nSTATUS=Serving");
    drop(server);
    let server = started(&"/x".repeat(200));
    assert_eq!(server.ask_admin("/readyz").status, 200, "the server runs without it");
    assert!(server.log().contains("NOTIFY_SOCKET"), "{}", server.log());
}
