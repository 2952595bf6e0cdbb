//! A clock held by a test or a simulation, in place of the server's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use tollgate_core::Micros;

/// The time scripts are told. Keys then live by that time, and an hour of real time on top, so that none is gone before
/// its time has come.
#[derive(Clone, Debug, Default)]
pub struct PretendClock {
    now: Arc<AtomicU64>,
}

impl PretendClock {
    /// It is this moment now.
    pub fn set(&self, now: Micros) {
        self.now.store(now.0, Ordering::Relaxed);
    }

    /// The moment it is.
    pub fn now(&self) -> Micros {
        Micros(self.now.load(Ordering::Relaxed))
    }

    /// When a key expires that lives for 0 ms, in milliseconds of real time.
    pub(crate) fn keys_live_from() -> u64 {
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(real.as_millis()).unwrap_or(u64::MAX / 2) + 3_600_000
    }
}
