//! The end: nothing under way is dropped.

use std::{
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use crate::{
    client::{ask_on, connect},
    desk::Desk,
};

/// Clients that ask without a pause while the server stops: every request that was sent is answered, and whoever is told
/// `connection: close` leaves.
#[test]
fn no_request_under_way_is_dropped() {
    for _ in 0..5 {
        let mut desk = Desk::new();
        let (answered, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
        let enough = AtomicBool::new(false);
        let address = desk.http;
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let Ok(mut stream) = TcpStream::connect(address) else { return };
                    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    while let Ok(reply) = ask_on(&mut stream, r#"{"domain":"api","key":"u","cost":0}"#) {
                        if answered.fetch_add(1, Ordering::Relaxed) > 400 {
                            enough.store(true, Ordering::Relaxed);
                        }
                        if reply.header("connection") == Some("close") {
                            return;
                        }
                    }
                    dropped.fetch_add(1, Ordering::Relaxed);
                });
            }
            while !enough.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            desk.stopper.stop();
            let server = desk.server.take().unwrap();
            desk.runtime.block_on(server.finished());
        });
        assert_eq!(dropped.load(Ordering::Relaxed), 0, "of {}", answered.load(Ordering::Relaxed));
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }
}

#[test]
fn readiness_ends_before_the_ports_close() {
    let desk = Desk::with(|config| config.stop_delay = Duration::from_secs(30));
    desk.stopper.stop();
    let ready = || desk.admin_get("/readyz").status;
    tollgate_testkit::servers::wait_until("readiness ends", Duration::from_secs(10), || ready() == 503);
    assert_eq!(desk.check(r#"{"domain":"api","key":"u"}"#)["verdict"], "allow", "whoever comes is still served");
    assert_eq!(desk.admin_get("/healthz").status, 200);
    // Nobody waits for the delay: the server is dropped with its runtime.
    std::mem::forget(desk);
}

/// An idle connection does not hold the end up.
#[test]
fn idle_connections_are_let_go() {
    let mut desk = Desk::new();
    let mut stream = connect(desk.http);
    assert_eq!(ask_on(&mut stream, r#"{"domain":"api","key":"u"}"#).unwrap().status, 200);
    desk.stopper.stop();
    let server = desk.server.take().unwrap();
    let ended = desk.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(9), server.finished()).await });
    assert!(ended.is_ok(), "the drain's ten seconds were not needed");
}

/// A crowd that never ends: at some moment nobody is let in any more.
#[test]
fn those_who_keep_coming_do_not_hold_the_end_up() {
    let mut desk = Desk::new();
    let (address, came, ended) = (desk.http, AtomicU64::new(0), AtomicBool::new(false));
    let in_time = thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    came.fetch_add(u64::from(TcpStream::connect(address).is_ok()), Ordering::Relaxed);
                    // A system has only so many ports for its own side.
                    thread::sleep(Duration::from_millis(4));
                }
            });
        }
        while came.load(Ordering::Relaxed) < 100 {
            thread::yield_now();
        }
        desk.stopper.stop();
        let finished = desk.server.take().unwrap().finished();
        let in_time = desk.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(9), finished).await });
        ended.store(true, Ordering::Relaxed);
        in_time
    });
    assert!(in_time.is_ok(), "after nine seconds there is no end; {} have come", came.load(Ordering::Relaxed));
}
