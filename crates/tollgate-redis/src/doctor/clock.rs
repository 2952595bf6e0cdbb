//! What the servers' clocks show. Decisions go by them alone, so what matters is how far apart they are: a failover is a
//! jump from one to another.

use std::time::{Duration, Instant, SystemTime};

use super::{
    Finding,
    visit::{Visit, items, text},
};
use crate::address::HostPort;

/// One server's clock beside ours.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    node: String,
    /// How far ahead of ours it is, in microseconds.
    ahead_us: i64,
    /// How far off that may be.
    doubt: Duration,
}

/// Asks a few times; the shortest trip says it best.
pub(super) async fn read(visit: &Visit, place: &HostPort) -> (Option<Reading>, Option<Finding>) {
    let mut best: Option<Reading> = None;
    for _ in 0..TIMES {
        let (began, asked) = (SystemTime::now(), Instant::now());
        let Ok(answer) = visit.ask(&["TIME"]).await else { break };
        let doubt = asked.elapsed() / 2;
        let ours = (began + doubt).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let Some((theirs, ours)) = server_time(&answer).zip(i64::try_from(ours.as_micros()).ok()) else { break };
        if best.as_ref().is_none_or(|best| doubt < best.doubt) {
            best = Some(Reading { node: place.to_string(), ahead_us: theirs - ours, doubt });
        }
    }
    let finding = best.as_ref().map(about_one);
    (best, finding)
}

/// All of them beside each other.
pub(super) fn together(readings: &[Reading]) -> Option<Finding> {
    let first = readings.iter().min_by_key(|reading| reading.ahead_us)?;
    let last = readings.iter().max_by_key(|reading| reading.ahead_us).filter(|_| readings.len() > 1)?;
    let apart = Duration::from_micros(last.ahead_us.abs_diff(first.ahead_us));
    let doubt = first.doubt + last.doubt;
    let found = format!("{} clocks within {}", readings.len(), shown(apart + doubt));
    Some(if apart.saturating_sub(doubt) > TOLERATED {
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

fn about_one(reading: &Reading) -> Finding {
    let off = Duration::from_micros(reading.ahead_us.unsigned_abs());
    let side = if reading.ahead_us < 0 { "behind" } else { "ahead of" };
    let found = format!("{} {side} this machine's, give or take {}", shown(off), shown(reading.doubt));
    if off.saturating_sub(reading.doubt) > TOLERATED {
        let found = format!("{found}; harmless by itself, since only the server's clock counts");
        Finding::note("clock", found).change("set both by NTP (chrony, systemd-timesyncd)")
    } else {
        Finding::ok("clock", found)
    }
}

/// Seconds and microseconds, as text.
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

const TIMES: usize = 5;
/// The algorithms' own tolerance of a clock that steps back is no larger.
const TOLERATED: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn reading(node: &str, ahead_us: i64) -> Reading {
        Reading { node: node.to_owned(), ahead_us, doubt: Duration::from_micros(100) }
    }

    #[test]
    fn clocks_that_are_apart_are_warned_of() {
        assert_eq!(together(&[reading("a", 500)]), None, "one clock has nobody to disagree with");
        let level = |readings: &[Reading]| together(readings).map(|finding| finding.level);
        assert_eq!(level(&[reading("a", -300_000), reading("b", 400_000)]), Some(Level::Ok));
        assert_eq!(level(&[reading("a", 0), reading("b", -2_000_000)]), Some(Level::Warn));
    }

    #[test]
    fn a_clock_far_from_ours_is_noted() {
        assert_eq!(about_one(&reading("a", -900_000)).level, Level::Ok);
        assert_eq!(about_one(&reading("a", -3_600_000_000)).level, Level::Note);
    }
}
