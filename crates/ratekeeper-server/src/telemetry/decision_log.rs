//! Decision log: refusals and a sample of admissions as JSON lines, in a file or on standard error.
//!
//! ```text
//! request ─ sample, rate gate ─▶ queue (bounded) ─▶ writer thread ─▶ file
//! ```
//!
//! The request never waits: a line that exceeds the rate or finds the queue full is dropped and counted. The writer opens
//! the file for appending, and opens it again when it was renamed or removed, so that log rotation needs no signal.
//!
//! Bound: [`QUEUE`] lines in the queue, `per_second` lines a second.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use prometheus_client::metrics::{counter::Counter, family::Family};
use ratekeeper_core::{Timestamp, Verdict};
use ratekeeper_http::json::{push, push_field, push_millis, push_string, push_word};

use super::{labels::ReasonLabels, rate_gate::RateGate, top::Denial};

/// Settings of the decision log.
#[derive(Clone, Debug)]
pub struct DecisionLogConfig {
    /// The file; `-` is standard error.
    pub file: PathBuf,
    /// The share of admissions that is logged, 0 to 1. Refusals are all logged.
    pub sample: f64,
    /// Lines per second; those beyond are dropped.
    pub per_second: u32,
}

/// A decision to log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoggedDecision<'a> {
    pub(crate) domain: &'a str,
    pub(crate) policy: &'a str,
    pub(crate) rule: &'a str,
    pub(crate) key: &'a str,
    pub(crate) cost: u64,
    pub(crate) verdict: Verdict,
    pub(crate) denial: Option<Denial>,
    pub(crate) remaining: u64,
    pub(crate) limit: u64,
    pub(crate) source: &'static str,
}

/// The log of a server.
#[derive(Debug)]
pub(super) struct DecisionLog {
    /// Admissions are logged if a hash of their time is below this.
    threshold: u64,
    per_second: u32,
    gate: RateGate,
    /// `None` after [`finish`](Self::finish).
    queue: Mutex<Option<SyncSender<Vec<u8>>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    dropped: Family<ReasonLabels, Counter>,
    lines: Counter,
}

impl DecisionLog {
    /// Opens the file and starts the writer.
    pub(super) fn start(
        config: &DecisionLogConfig,
        lines: Counter,
        dropped: Family<ReasonLabels, Counter>,
    ) -> io::Result<Self> {
        let (queue, waiting) = sync_channel(QUEUE);
        let output = Output::open(&config.file)?;
        let failed = dropped.clone();
        let writer = thread::Builder::new()
            .name("decision-log".to_owned())
            .spawn(move || write_lines(output, &waiting, &failed))?;
        Ok(Self {
            threshold: threshold(config.sample),
            per_second: config.per_second,
            gate: RateGate::default(),
            queue: Mutex::new(Some(queue)),
            writer: Mutex::new(Some(writer)),
            dropped,
            lines,
        })
    }

    /// Whether a decision at this time is logged: every refusal, and the sample of admissions.
    #[inline]
    pub(crate) fn wants(&self, at: Timestamp, is_refused: bool) -> bool {
        is_refused || hash(at) < self.threshold
    }

    /// Adds a line to the queue, or drops it.
    pub(crate) fn add(&self, at: Timestamp, decision: &LoggedDecision<'_>) {
        if !self.gate.passes(at, self.per_second) {
            self.count_dropped("rate");
            return;
        }
        let line = line(at, decision);
        let sent = self.queue.lock().as_ref().is_some_and(|queue| queue.try_send(line).is_ok());
        if sent {
            self.lines.inc();
        } else {
            self.count_dropped("queue");
        }
    }

    /// Writes what is queued, and ends the writer.
    pub(crate) fn finish(&self) {
        drop(self.queue.lock().take());
        if let Some(writer) = self.writer.lock().take() {
            let _ = writer.join();
        }
    }

    fn count_dropped(&self, reason: &'static str) {
        self.dropped.get_or_create(&ReasonLabels { reason }).inc();
    }
}

fn line(at: Timestamp, decision: &LoggedDecision<'_>) -> Vec<u8> {
    let mut line = Vec::with_capacity(256);
    push(&mut line, b"{\"at_ms\":");
    push_millis(&mut line, at);
    for (field, text) in [
        (&b",\"domain\":"[..], decision.domain),
        (b",\"policy\":", decision.policy),
        (b",\"rule\":", decision.rule),
        (b",\"key\":", decision.key),
    ] {
        push(&mut line, field);
        push_string(&mut line, text);
    }
    push_field(&mut line, b",\"cost\":", decision.cost);
    push_word(&mut line, b",\"verdict\":\"", decision.verdict.name());
    if let Some(denial) = decision.denial {
        push_word(&mut line, b",\"denial\":\"", denial.name());
    }
    push_field(&mut line, b",\"remaining\":", decision.remaining);
    push_field(&mut line, b",\"limit\":", decision.limit);
    push_field(&mut line, b",\"wait_us\":", decision.verdict.wait().as_micros());
    match decision.verdict.retry_after_span() {
        Some(retry_after) => push_field(&mut line, b",\"retry_after_us\":", retry_after.as_micros()),
        None => push(&mut line, b",\"retry_after_us\":null"),
    }
    push_word(&mut line, b",\"source\":\"", decision.source);
    push(&mut line, b"}\n");
    line
}

/// Where lines are written.
enum Output {
    Stderr,
    File { path: PathBuf, file: BufWriter<File>, checked: Instant },
}

impl Output {
    fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stderr);
        }
        let file = BufWriter::new(append_to(path)?);
        Ok(Self::File { path: path.to_owned(), file, checked: Instant::now() })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Stderr => io::stderr().lock().write_all(line),
            Self::File { path, file, checked } => {
                if checked.elapsed() >= CHECK_INTERVAL {
                    *checked = Instant::now();
                    if was_moved(path, file.get_ref()) {
                        file.flush()?;
                        *file = BufWriter::new(append_to(path)?);
                    }
                }
                file.write_all(line)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stderr => Ok(()),
            Self::File { file, .. } => file.flush(),
        }
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Whether the path no longer names the open file.
#[cfg(unix)]
fn was_moved(path: &Path, open: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let named = path.metadata().map(identity).ok();
    open.metadata().map(identity).ok() != named
}

#[cfg(not(unix))]
fn was_moved(path: &Path, _open: &File) -> bool {
    !path.exists()
}

/// Writes lines until the queue is closed. Lines are flushed when none is waiting.
fn write_lines(mut output: Output, waiting: &Receiver<Vec<u8>>, dropped: &Family<ReasonLabels, Counter>) {
    let mut has_failed = false;
    let mut report = |written: io::Result<()>| match written {
        Ok(()) => has_failed = false,
        Err(error) => {
            dropped.get_or_create(&ReasonLabels { reason: "write" }).inc();
            if !std::mem::replace(&mut has_failed, true) {
                tracing::warn!(%error, "the decision log cannot be written");
            }
        }
    };
    loop {
        match waiting.recv_timeout(FLUSH_INTERVAL) {
            Ok(line) => {
                let mut written = output.write(&line);
                while let (Ok(()), Ok(line)) = (&written, waiting.try_recv()) {
                    written = output.write(&line);
                }
                report(written.and_then(|()| output.flush()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return report(output.flush()),
        }
    }
}

/// A share of 2^64.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the share is clamped, and casts of floats saturate"
)]
fn threshold(share: f64) -> u64 {
    if share >= 1.0 { u64::MAX } else { (share.max(0.0) * u64::MAX as f64) as u64 }
}

/// Spreads times evenly over 2^64, so that a sample needs no shared state (the finalizer of SplitMix64).
fn hash(at: Timestamp) -> u64 {
    let mut word = at.as_micros().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (word ^ (word >> 31)).min(u64::MAX - 1)
}

/// Lines that wait for the writer.
const QUEUE: usize = 8_192;
/// How often the writer looks whether the file was renamed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The longest wait of the writer for a line.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use ratekeeper_core::Span;
    use serde_json::{Value, json};

    use super::*;

    fn denied(key: &str) -> LoggedDecision<'_> {
        LoggedDecision {
            domain: "api",
            policy: "per-user",
            rule: "few",
            key,
            cost: 2,
            verdict: Verdict::Deny { retry_after: Span::from_millis(900) },
            denial: Some(Denial::Refused),
            remaining: 1,
            limit: 3,
            source: "store",
        }
    }

    fn start(path: &Path, sample: f64, per_second: u32) -> (DecisionLog, Family<ReasonLabels, Counter>) {
        let dropped = Family::default();
        let config = DecisionLogConfig { file: path.to_owned(), sample, per_second };
        (DecisionLog::start(&config, Counter::default(), dropped.clone()).unwrap(), dropped)
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_line_is_json_whatever_the_key_contains() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        let (log, _) = start(&path, 0.0, 10);
        log.add(Timestamp::from_millis(10_200), &denied("a\"\n\u{7}"));
        log.finish();
        let expected = json!({
            "at_ms": 10200, "domain": "api", "policy": "per-user", "rule": "few", "key": "a\"\n\u{7}", "cost": 2,
            "verdict": "deny", "denial": "refused", "remaining": 1, "limit": 3, "wait_us": 0, "retry_after_us": 900_000,
            "source": "store",
        });
        assert_eq!(lines(&path), [expected]);
    }

    #[test]
    fn lines_beyond_the_rate_are_dropped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        let (log, dropped) = start(&path, 0.0, 3);
        for _ in 0..10 {
            log.add(Timestamp::from_secs(5), &denied("u"));
        }
        log.finish();
        log.add(Timestamp::from_secs(6), &denied("after the end"));
        assert_eq!(lines(&path).len(), 3);
        let count = |reason| dropped.get_or_create(&ReasonLabels { reason }).get();
        assert_eq!((count("rate"), count("queue")), (7, 1));
    }

    #[test]
    fn refusals_are_all_wanted_and_admissions_by_their_share() {
        let folder = tempfile::tempdir().unwrap();
        for (sample, least, most) in [(0.0, 0, 0), (0.01, 900, 1_100), (0.5, 49_000, 51_000), (1.0, 100_000, 100_000)] {
            let (log, _) = start(&folder.path().join("log"), sample, 10);
            let times = || (0..100_000).map(|step| Timestamp::from_micros(1_700_000_000_000_000 + step * 37));
            let wanted = times().filter(|at| log.wants(*at, false)).count();
            assert!((least..=most).contains(&wanted), "{sample}: {wanted} of 100000");
            assert!(times().take(100).all(|at| log.wants(at, true)));
            log.finish();
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_renamed_file_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("log"), folder.path().join("log.1"));
        let mut output = Output::open(&path).unwrap();
        output.write(b"one\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        if let Output::File { checked, .. } = &mut output {
            *checked = checked.checked_sub(CHECK_INTERVAL).unwrap();
        }
        output.write(b"two\n").unwrap();
        output.flush().unwrap();
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&moved).as_str(), read(&path).as_str()), ("one\n", "two\n"));
    }
}
