//! Where the embedded store gets the time from: the machine, or a test.
//!
//! A decision reads the clock once, so reading it must cost little. [`SystemClock`] counts processor ticks (12 ns here,
//! where the operating system's clock takes 30) and sets them right by the wall clock four times a second. A wall
//! clock that steps back is followed; the algorithms know how to live with that.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tollgate_core::Micros;

/// Tells the time since the Unix epoch.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Micros;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    ticks: quanta::Clock,
    /// Microseconds in 2^64 ticks.
    micros: u64,
    /// What to add to the microseconds counted, to arrive at the wall clock; below zero it wraps.
    offset: AtomicU64,
    /// At which tick count to look at the wall clock again.
    look_again: AtomicU64,
}

impl SystemClock {
    /// Starts counting.
    pub fn new() -> Self {
        let ticks = quanta::Clock::new();
        // A nanosecond is a tick or less, so what 2^40 ticks come to, times 2^24, fits.
        let micros = (u128::from(ticks.delta_as_nanos(0, 1 << 40)) << 24) / 1_000;
        let clock = Self {
            ticks,
            micros: u64::try_from(micros).unwrap_or(u64::MAX),
            offset: AtomicU64::new(0),
            look_again: AtomicU64::new(0),
        };
        clock.set_right(clock.ticks.raw());
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
    fn set_right(&self, ticks: u64) {
        let per_micro = (u64::MAX / self.micros.max(1)).max(1);
        self.look_again.store(ticks.saturating_add(LOOK_EVERY * per_micro), Ordering::Relaxed);
        self.offset.store(wall_clock().0.wrapping_sub(self.counted(ticks)), Ordering::Relaxed);
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Micros {
        let ticks = self.ticks.raw();
        if ticks >= self.look_again.load(Ordering::Relaxed) {
            self.set_right(ticks);
        }
        Micros(self.counted(ticks).wrapping_add(self.offset.load(Ordering::Relaxed)))
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

/// The machine's clock as a thread of our own last read it: half a millisecond old, more if that thread is kept waiting.
///
/// For programs that decide tens of millions of times a second and would rather not pay for a clock reading each time.
/// Decisions are exact as ever, by a clock that moves in steps: what drains in a step, drains at its end. The thread
/// ends when the last clone of the clock is gone.
#[derive(Clone, Debug)]
pub struct CoarseClock {
    now: Arc<AtomicU64>,
}

impl CoarseClock {
    /// Starts the thread. Fails if the system has none to give.
    pub fn start() -> io::Result<Self> {
        let now = Arc::new(AtomicU64::new(wall_clock().0));
        let kept = Arc::downgrade(&now);
        let tick = move || {
            while let Some(now) = kept.upgrade() {
                now.store(wall_clock().0, Ordering::Relaxed);
                drop(now);
                thread::sleep(COARSE_STEP);
            }
        };
        thread::Builder::new().name("tollgate-clock".to_owned()).spawn(tick)?;
        Ok(Self { now })
    }
}

impl Clock for CoarseClock {
    #[inline]
    fn now(&self) -> Micros {
        Micros(self.now.load(Ordering::Relaxed))
    }
}

/// A clock that stands still until it is told otherwise. Clones share the time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now: Arc<AtomicU64>,
}

impl ManualClock {
    /// Starts at this instant.
    pub fn at(now: Micros) -> Self {
        Self { now: Arc::new(AtomicU64::new(now.0)) }
    }

    /// Jumps to an instant, forwards or backwards.
    pub fn set(&self, now: Micros) {
        self.now.store(now.0, Ordering::SeqCst);
    }

    /// Moves on.
    pub fn advance(&self, span: impl Into<Duration>) {
        self.now.fetch_add(Micros::from_duration(span.into()).0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Micros {
        Micros(self.now.load(Ordering::SeqCst))
    }
}

fn wall_clock() -> Micros {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(Micros::ZERO, Micros::from_duration)
}

/// How long tick counting is trusted, in microseconds. Counters drift by some 80 µs a second at worst, so this keeps within 20 µs.
const LOOK_EVERY: u64 = 250_000;

/// How often the coarse clock is read.
const COARSE_STEP: Duration = Duration::from_micros(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_clock_moves_while_somebody_has_it() {
        let clock = CoarseClock::start().unwrap();
        let began = clock.now();
        while clock.now() == began {
            thread::yield_now();
        }
        assert!(clock.now().0.abs_diff(wall_clock().0) < 10_000_000);
    }

    #[test]
    fn the_machines_clock_agrees_with_the_wall() {
        let clock = SystemClock::new();
        let apart = clock.now().0.abs_diff(wall_clock().0);
        assert!(apart < 1_000_000, "{apart} µs apart");
    }

    #[test]
    fn counted_ticks_are_microseconds() {
        let clock = SystemClock::new();
        let a_second = clock.ticks.delta_as_nanos(0, 1_000_000_000);
        let counted = clock.counted(1_000_000_000);
        assert!(counted.abs_diff(a_second / 1_000) <= 1, "{counted} µs for {a_second} ns");
    }

    #[test]
    fn a_manual_clock_goes_where_it_is_told() {
        let clock = ManualClock::at(Micros(5));
        let same = clock.clone();
        clock.advance(Micros(2));
        assert_eq!(same.now(), Micros(7));
        same.set(Micros(1));
        assert_eq!(clock.now(), Micros(1));
    }
}
