//! Clocks of the memory store: system, coarse and manual.
//!
//! A decision reads the clock once, so reads must be cheap. [`SystemClock`] counts CPU ticks (12 ns a read on the
//! development machine; the operating system's clock takes 30) and synchronizes with the wall clock four times a second.
//! A wall clock that steps back is followed; the algorithms handle such steps.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use ratekeeper_core::{ManualClock, Timestamp};

/// A source of time since the Unix epoch.
pub trait Clock: Send + Sync + 'static {
    /// The present time.
    fn now(&self) -> Timestamp;
}

/// The system's wall clock, interpolated with CPU ticks.
#[derive(Debug)]
pub struct SystemClock {
    ticks: quanta::Clock,
    /// Microseconds in 2^64 ticks.
    micros: u64,
    /// Wall clock minus counted microseconds; wraps below zero.
    offset: AtomicU64,
    /// Tick count of the next synchronization with the wall clock.
    sync_at: AtomicU64,
}

impl SystemClock {
    /// A clock synchronized with the wall clock.
    pub fn new() -> Self {
        let ticks = quanta::Clock::new();
        // A tick takes a nanosecond or less, so the nanoseconds of 2^40 ticks, times 2^24, fit.
        let micros = (u128::from(ticks.delta_as_nanos(0, 1 << 40)) << 24) / 1_000;
        let clock = Self {
            ticks,
            micros: u64::try_from(micros).unwrap_or(u64::MAX),
            offset: AtomicU64::new(0),
            sync_at: AtomicU64::new(0),
        };
        clock.synchronize(clock.ticks.raw());
        clock
    }

    #[inline]
    fn counted(&self, ticks: u64) -> u64 {
        // The upper half of a 128-bit product always fits 64 bits.
        #[allow(clippy::cast_possible_truncation)]
        let micros = ((u128::from(ticks) * u128::from(self.micros)) >> 64) as u64;
        micros
    }

    #[cold]
    #[inline(never)]
    fn synchronize(&self, ticks: u64) {
        let per_micro = (u64::MAX / self.micros.max(1)).max(1);
        self.sync_at.store(ticks.saturating_add(SYNC_EVERY * per_micro), Ordering::Relaxed);
        self.offset.store(wall_clock().as_micros().wrapping_sub(self.counted(ticks)), Ordering::Relaxed);
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let ticks = self.ticks.raw();
        if ticks >= self.sync_at.load(Ordering::Relaxed) {
            self.synchronize(ticks);
        }
        Timestamp::from_micros(self.counted(ticks).wrapping_add(self.offset.load(Ordering::Relaxed)))
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

/// The wall clock as last read by a background thread: up to half a millisecond old, more if the thread is delayed.
///
/// For programs with tens of millions of decisions a second, where each clock read matters. Decisions stay exact by a
/// clock that moves in steps. The thread ends with the last clone of the clock.
#[derive(Clone, Debug)]
pub struct CoarseClock {
    now: Arc<AtomicU64>,
}

impl CoarseClock {
    /// Starts the thread. Fails if the system refuses one.
    pub fn start() -> io::Result<Self> {
        let now = Arc::new(AtomicU64::new(wall_clock().as_micros()));
        let shared = Arc::downgrade(&now);
        let tick = move || {
            while let Some(now) = shared.upgrade() {
                now.store(wall_clock().as_micros(), Ordering::Relaxed);
                drop(now);
                thread::sleep(COARSE_STEP);
            }
        };
        thread::Builder::new().name("ratekeeper-clock".to_owned()).spawn(tick)?;
        Ok(Self { now })
    }
}

impl Clock for CoarseClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.load(Ordering::Relaxed))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Self::now(self)
    }
}

fn wall_clock() -> Timestamp {
    SystemTime::now().into()
}

/// Microseconds between synchronizations. Tick counters drift by some 80 µs a second at worst, so the error stays
/// below 20 µs.
const SYNC_EVERY: u64 = 250_000;

/// How often the coarse clock is read.
const COARSE_STEP: Duration = Duration::from_micros(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_clock_advances() {
        let clock = CoarseClock::start().unwrap();
        let began = clock.now();
        while clock.now() == began {
            thread::yield_now();
        }
        assert!(clock.now().as_micros().abs_diff(wall_clock().as_micros()) < 10_000_000);
    }

    #[test]
    fn the_system_clock_agrees_with_the_wall_clock() {
        let clock = SystemClock::new();
        let apart = clock.now().as_micros().abs_diff(wall_clock().as_micros());
        assert!(apart < 1_000_000, "{apart} µs apart");
    }

    #[test]
    fn counted_ticks_are_microseconds() {
        let clock = SystemClock::new();
        let a_second = clock.ticks.delta_as_nanos(0, 1_000_000_000);
        let counted = clock.counted(1_000_000_000);
        assert!(counted.abs_diff(a_second / 1_000) <= 1, "{counted} µs for {a_second} ns");
    }
}
