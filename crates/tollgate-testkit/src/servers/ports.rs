//! Ports on loopback that nobody listens on.
//!
//! They come from below the range the kernel lends to outgoing connections (32768 and up on Linux). A port from that
//! range, as binding port 0 would give, can be lent away while its server is down, and then the server cannot come
//! back; worse, a client that knocks on a dead port of that range now and then connects to itself.

use std::{
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, TcpListener},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// A port that is free now. Two calls in one process give different ones; between processes luck decides, so whoever
/// takes the port must be ready to find it taken.
pub(super) fn free() -> u16 {
    listen().1
}

/// A free port, already listened on.
pub(super) fn listen() -> (TcpListener, u16) {
    for _ in 0..RANGE {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % RANGE;
        let port = u16::try_from(FIRST + step).expect("the range lies within the ports");
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return (listener, port);
        }
    }
    panic!("no free port on loopback between {FIRST} and {}", FIRST + RANGE);
}

const FIRST: u32 = 12_000;
const RANGE: u32 = 20_000;

/// Every process starts somewhere else, so that test processes running side by side seldom meet.
static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| {
    let chance = RandomState::new().hash_one(std::process::id());
    AtomicU32::new(u32::try_from(chance % u64::from(RANGE)).expect("less than the range"))
});
