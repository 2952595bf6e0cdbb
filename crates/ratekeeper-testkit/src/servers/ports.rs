//! Free ports on loopback.
//!
//! They are below the ephemeral range (32768 and up on Linux). A port of that range, as binding port 0 returns, can be
//! assigned to an outgoing connection while its server is down, and the server could not be restarted. A client that
//! connects to an unused port of that range may even be connected to itself.

use std::{
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, TcpListener},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// A port that is free now. Two calls in one process return different ones. Another process may bind it first, so a
/// caller has to handle a port that is in use.
pub(super) fn free() -> u16 {
    listen().1
}

/// A free port, already listened on.
pub(super) fn listen() -> (TcpListener, u16) {
    for _ in 0..RANGE {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % RANGE;
        let port = u16::try_from(FIRST + step).expect("the range is within 16 bits");
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return (listener, port);
        }
    }
    panic!("no free port on loopback between {FIRST} and {}", FIRST + RANGE);
}

const FIRST: u32 = 12_000;
const RANGE: u32 = 20_000;

/// Every process starts at a random port, so that concurrent test processes seldom collide.
static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| {
    let random = RandomState::new().hash_one(std::process::id());
    AtomicU32::new(u32::try_from(random % u64::from(RANGE)).expect("less than the range"))
});
