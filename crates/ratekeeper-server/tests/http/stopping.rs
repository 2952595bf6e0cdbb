//! Graceful shutdown: in-flight requests are answered, idle connections are closed.

use std::{
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use crate::{
    client::{ask_on, connect},
    fixture::Fixture,
};

/// Clients send requests without a pause while the server stops. Every request is answered; a client that receives
/// `Connection: close` stops.
#[test]
fn no_in_flight_request_is_dropped() {
    for _ in 0..5 {
        let mut fixture = Fixture::new();
        let (answered, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
        let is_warm = AtomicBool::new(false);
        let address = fixture.http;
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let Ok(mut stream) = TcpStream::connect(address) else { return };
                    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    while let Ok(reply) = ask_on(&mut stream, r#"{"domain":"api","key":"u","cost":0}"#) {
                        if answered.fetch_add(1, Ordering::Relaxed) > 400 {
                            is_warm.store(true, Ordering::Relaxed);
                        }
                        if reply.header("connection") == Some("close") {
                            return;
                        }
                    }
                    dropped.fetch_add(1, Ordering::Relaxed);
                });
            }
            while !is_warm.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            fixture.stopper.stop();
            let server = fixture.server.take().unwrap();
            fixture.runtime.block_on(server.finished());
        });
        assert_eq!(dropped.load(Ordering::Relaxed), 0, "of {}", answered.load(Ordering::Relaxed));
        assert!(TcpStream::connect(address).is_err(), "the port is closed");
    }
}

#[test]
fn readiness_ends_before_the_ports_close() {
    let fixture = Fixture::with(|config| config.stop_delay = Duration::from_secs(30));
    fixture.stopper.stop();
    let ready = || fixture.admin_get("/readyz").status;
    ratekeeper_testkit::servers::wait_until("readiness ends", Duration::from_secs(10), || ready() == 503);
    assert_eq!(fixture.check(r#"{"domain":"api","key":"u"}"#)["verdict"], "allow", "requests are still served");
    assert_eq!(fixture.admin_get("/healthz").status, 200);
    // The delay is not waited for: the server is dropped with its runtime.
    std::mem::forget(fixture);
}

#[test]
fn idle_connections_do_not_delay_shutdown() {
    let mut fixture = Fixture::new();
    let mut stream = connect(fixture.http);
    assert_eq!(ask_on(&mut stream, r#"{"domain":"api","key":"u"}"#).unwrap().status, 200);
    fixture.stopper.stop();
    let server = fixture.server.take().unwrap();
    let ended =
        fixture.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(9), server.finished()).await });
    assert!(ended.is_ok(), "the drain time of ten seconds is not used up");
}

/// Connections that keep arriving are accepted for 20 ms after shutdown has begun.
#[test]
fn new_connections_do_not_delay_shutdown() {
    let mut fixture = Fixture::new();
    let (address, accepted, ended) = (fixture.http, AtomicU64::new(0), AtomicBool::new(false));
    let in_time = thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    accepted.fetch_add(u64::from(TcpStream::connect(address).is_ok()), Ordering::Relaxed);
                    // The system has a limited number of ephemeral ports.
                    thread::sleep(Duration::from_millis(4));
                }
            });
        }
        while accepted.load(Ordering::Relaxed) < 100 {
            thread::yield_now();
        }
        fixture.stopper.stop();
        let finished = fixture.server.take().unwrap().finished();
        let in_time = fixture.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(9), finished).await });
        ended.store(true, Ordering::Relaxed);
        in_time
    });
    assert!(
        in_time.is_ok(),
        "not ended after nine seconds; {} connections were accepted",
        accepted.load(Ordering::Relaxed)
    );
}
