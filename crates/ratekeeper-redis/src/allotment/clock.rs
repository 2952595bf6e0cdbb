//! The clock that bounds the use of allotments.
//!
//! It must not stop while the store's clock goes on. On Linux it is `CLOCK_BOOTTIME`, which counts while the machine is
//! suspended. A virtual machine that was paused with all its clocks cannot know it; its wall clock is usually set forward
//! afterwards, and [`LocalClock::jumped`] detects that.

use std::time::{SystemTime, UNIX_EPOCH};

use ratekeeper_core::Span;

use super::LocalTime;

/// The monotonic clock of this process, and the offset of the wall clock to it.
#[derive(Debug)]
pub(crate) struct LocalClock {
    /// Wall clock minus monotonic clock at the last comparison, in µs.
    offset: parking_lot::Mutex<i128>,
}

impl LocalClock {
    pub(crate) fn new() -> Self {
        Self { offset: parking_lot::Mutex::new(Self::offset()) }
    }

    #[inline]
    pub(crate) fn now() -> LocalTime {
        LocalTime(micros())
    }

    /// Whether the wall clock has moved ahead of the monotonic clock by more than a second since the last call.
    pub(crate) fn jumped(&self) -> bool {
        let now = Self::offset();
        let mut last = self.offset.lock();
        let before = std::mem::replace(&mut *last, now);
        now - before > i128::from(Span::SECOND.as_micros())
    }

    fn offset() -> i128 {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        i128::try_from(wall).unwrap_or(i128::MAX) - i128::from(micros())
    }
}

#[cfg(target_os = "linux")]
#[inline]
#[allow(clippy::cast_sign_loss, reason = "the time since boot is not negative")]
fn micros() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

#[cfg(not(target_os = "linux"))]
fn micros() -> u64 {
    use std::{sync::LazyLock, time::Instant};

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_micros()).unwrap_or(u64::MAX)
}
