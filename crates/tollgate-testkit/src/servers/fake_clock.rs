//! A server's wall clock, in the hands of the test.
//!
//! libfaketime is loaded into the server and adds an offset to every reading of the time. It reads the offset from a
//! file, at each reading (`FAKETIME_NO_CACHE`). The monotonic clock is left alone, as it is when an administrator or a
//! time daemon steps the real one.
//!
//! Valkey 9 looks at the clock once in a millisecond and reckons with the monotonic one in between. A step returns when
//! that is over, so the very next command sees it.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::Duration,
};

use tollgate_core::Micros;

use super::{Part, require};

/// The difference between a server's clock and ours. Survives a restart of the server.
#[derive(Debug)]
pub struct FakeClock {
    offset_us: Mutex<i64>,
    file: PathBuf,
    library: PathBuf,
}

impl FakeClock {
    pub(super) fn in_directory(home: &Path) -> Self {
        let clock = Self { offset_us: Mutex::new(0), file: home.join("clock"), library: require(Part::LibFaketime) };
        clock.turn(0);
        clock
    }

    /// Steps the clock into the future.
    pub fn step_forward(&self, span: Duration) {
        self.turn(micros(span));
        thread::sleep(UNTIL_NOTICED);
    }

    /// Steps the clock into the past.
    pub fn step_back(&self, span: Duration) {
        self.turn(-micros(span));
        thread::sleep(UNTIL_NOTICED);
    }

    /// Stops the clock at an instant, which should be a multiple of a 64th of a second: other fractions of a second are
    /// rounded on their way. Stepping sets it going again, from where it would be.
    pub fn stand_still_at(&self, now: Micros) {
        self.write(&format!("{}.{:06}", now.0 / 1_000_000, now.0 % 1_000_000));
        thread::sleep(UNTIL_NOTICED);
    }

    pub(super) fn environment(&self) -> [(&'static str, OsString); 5] {
        [
            ("LD_PRELOAD", self.library.clone().into()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.clone().into()),
            ("FAKETIME_NO_CACHE", "1".into()),
            // Instants, where they are named, are in seconds since the epoch.
            ("FAKETIME_FMT", "%s".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }

    fn turn(&self, step_us: i64) {
        let mut offset_us = self.offset_us.lock().expect("nothing panics under this lock");
        *offset_us += step_us;
        let (sign, size) = (if *offset_us < 0 { '-' } else { '+' }, offset_us.unsigned_abs());
        self.write(&format!("{sign}{}.{:06}", size / 1_000_000, size % 1_000_000));
    }

    fn write(&self, text: &str) {
        // Renamed into place: the server may read at any moment, and must not find half a number.
        let draft = self.file.with_extension("draft");
        fs::write(&draft, text).and_then(|()| fs::rename(&draft, &self.file)).expect("the directory is ours");
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).expect("a step of less than 292,000 years")
}

/// Well above the millisecond for which a server may go by its last look at the clock. Not a matter of the machine's load:
/// whatever is asked later than this is answered after a fresh look.
const UNTIL_NOTICED: Duration = Duration::from_millis(5);
