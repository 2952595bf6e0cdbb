//! Clocks of the servers. Decisions use the clock of the primary, so a failover jumps by the difference between two clocks.

use std::time::{Duration, Instant, SystemTime};

use ratekeeper_redis::link::HostPort;

use super::{
    Finding,
    probe::{Probe, items, text},
};

/// The clock of one server, relative to the local one.
#[derive(Clone, Debug)]
pub(super) struct ClockReading {
    node: String,
    /// How far it is ahead of the local clock, in microseconds.
    ahead_us: i64,
    /// Error bound: half of the round trip.
    error: Duration,
}

/// Reads the clock several times and keeps the reading with the shortest round trip.
pub(super) async fn read(probe: &Probe, address: &HostPort) -> (Option<ClockReading>, Option<Finding>) {
    let mut best: Option<ClockReading> = None;
    for _ in 0..READINGS {
        let (began, asked) = (SystemTime::now(), Instant::now());
        let Ok(answer) = probe.ask(&["TIME"]).await else { break };
        let error = asked.elapsed() / 2;
        let ours = (began + error).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let Some((theirs, ours)) = server_time(&answer).zip(i64::try_from(ours.as_micros()).ok()) else { break };
        if best.as_ref().is_none_or(|best| error < best.error) {
            best = Some(ClockReading { node: address.to_string(), ahead_us: theirs - ours, error });
        }
    }
    let finding = best.as_ref().map(check_one);
    (best, finding)
}

/// Compares the clocks of all servers.
pub(super) fn compare(readings: &[ClockReading]) -> Option<Finding> {
    let first = readings.iter().min_by_key(|reading| reading.ahead_us)?;
    let last = readings.iter().max_by_key(|reading| reading.ahead_us).filter(|_| readings.len() > 1)?;
    let apart = Duration::from_micros(last.ahead_us.abs_diff(first.ahead_us));
    let error = first.error + last.error;
    let found = format!("{} clocks within {}", readings.len(), shown(apart + error));
    Some(if apart.saturating_sub(error) > TOLERATED {
        let found = format!(
            "{} is {} ahead of {}: a failover between them moves the time by that much, which frees up to that much of a limit \
             too early or too late",
            last.node,
            shown(apart),
            first.node
        );
        Finding::warn("clocks", found).change("set the clocks by NTP (chrony, systemd-timesyncd)")
    } else {
        Finding::ok("clocks", found)
    })
}

fn check_one(reading: &ClockReading) -> Finding {
    let off = Duration::from_micros(reading.ahead_us.unsigned_abs());
    let side = if reading.ahead_us < 0 { "behind" } else { "ahead of" };
    let found = format!("{} {side} this machine's, ± {}", shown(off), shown(reading.error));
    if off.saturating_sub(reading.error) > TOLERATED {
        let found = format!("{found}; harmless, because only the server's clock is used");
        Finding::note("clock", found).change("set both by NTP (chrony, systemd-timesyncd)")
    } else {
        Finding::ok("clock", found)
    }
}

/// Parses the reply of `TIME`: seconds and microseconds, as text.
fn server_time(answer: &redis::Value) -> Option<i64> {
    let [seconds, micros] = items(answer) else { return None };
    let number = |value| text(value)?.parse::<i64>().ok();
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}

fn shown(span: Duration) -> String {
    if span >= Duration::from_secs(1) {
        format!("{:.1} s", span.as_secs_f64())
    } else {
        format!("{:.2} ms", span.as_secs_f64() * 1e3)
    }
}

const READINGS: usize = 5;
/// The largest tolerance of the algorithms for a clock that steps back.
const TOLERATED: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    fn reading(node: &str, ahead_us: i64) -> ClockReading {
        ClockReading { node: node.to_owned(), ahead_us, error: Duration::from_micros(100) }
    }

    #[test]
    fn clocks_that_differ_are_a_warning() {
        assert_eq!(compare(&[reading("a", 500)]), None, "nothing to compare with");
        let level = |readings: &[ClockReading]| compare(readings).map(|finding| finding.level);
        assert_eq!(level(&[reading("a", -300_000), reading("b", 400_000)]), Some(Severity::Ok));
        assert_eq!(level(&[reading("a", 0), reading("b", -2_000_000)]), Some(Severity::Warn));
    }

    #[test]
    fn a_clock_far_from_the_local_one_is_a_note() {
        assert_eq!(check_one(&reading("a", -900_000)).level, Severity::Ok);
        assert_eq!(check_one(&reading("a", -3_600_000_000)).level, Severity::Note);
    }
}
