//! Fake clock of a server, set by the test.
//!
//! libfaketime is preloaded into the server and adds an offset to the wall clock. It reads the offset from a file at
//! every call (`FAKETIME_NO_CACHE`). The monotonic clock is unchanged, as it is when an administrator or a time daemon
//! steps the wall clock.
//!
//! Valkey 9 reads the wall clock once a millisecond and uses the monotonic clock in between. A step returns after that
//! time, so the next command uses the new time.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::Duration,
};

use ratekeeper_core::Timestamp;

use super::{Part, require};

/// The offset of a server's clock from that of the machine. A restart of the server keeps it.
#[derive(Debug)]
pub struct FakeClock {
    offset_us: Mutex<i64>,
    file: PathBuf,
    library: PathBuf,
}

impl FakeClock {
    pub(super) fn in_directory(home: &Path) -> Self {
        let clock = Self { offset_us: Mutex::new(0), file: home.join("clock"), library: require(Part::LibFaketime) };
        clock.step(0);
        clock
    }

    /// Steps the clock into the future.
    pub fn step_forward(&self, span: Duration) {
        self.step(micros(span));
        thread::sleep(UNTIL_NOTICED);
    }

    /// Steps the clock into the past.
    pub fn step_back(&self, span: Duration) {
        self.step(-micros(span));
        thread::sleep(UNTIL_NOTICED);
    }

    /// Stops the clock at an instant, which should be a multiple of 1/64 s: libfaketime rounds other fractions. A step
    /// starts it again, at the time it would have without the stop.
    pub fn stop_at(&self, now: Timestamp) {
        self.write(&format!("{}.{:06}", now.as_micros() / 1_000_000, now.as_micros() % 1_000_000));
        thread::sleep(UNTIL_NOTICED);
    }

    pub(super) fn environment(&self) -> [(&'static str, OsString); 5] {
        [
            ("LD_PRELOAD", self.library.clone().into()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.clone().into()),
            ("FAKETIME_NO_CACHE", "1".into()),
            // Absolute times are in seconds since the epoch.
            ("FAKETIME_FMT", "%s".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }

    fn step(&self, step_us: i64) {
        let mut offset_us = self.offset_us.lock().expect("nothing panics under this lock");
        *offset_us += step_us;
        let (sign, size) = (if *offset_us < 0 { '-' } else { '+' }, offset_us.unsigned_abs());
        self.write(&format!("{sign}{}.{:06}", size / 1_000_000, size % 1_000_000));
    }

    fn write(&self, text: &str) {
        // Renamed into place, because the server may read the file at any time.
        let draft = self.file.with_extension("draft");
        fs::write(&draft, text).and_then(|()| fs::rename(&draft, &self.file)).expect("the directory is writable");
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).expect("a step of less than 292,000 years")
}

/// Above the millisecond for which a server may use its last reading of the clock. It does not depend on the machine's
/// load: a command that arrives later is decided with a new reading.
const UNTIL_NOTICED: Duration = Duration::from_millis(5);
