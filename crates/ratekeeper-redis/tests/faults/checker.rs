//! Checker: the record of a run against the bounds of the Redis store.
//!
//! Admissions are replayed, by the time of the store that made them, into a meter that leaks at the rate. The meter
//! never holds more than the burst if and only if no window, of any length, admits more than burst + rate × window.
//! Each loss of the store's data lowers the meter by one burst: a loss may cost that much and no more.
//!
//! Conversely, the store refuses no request while it has room. A second meter holds everything that the store may have
//! counted, including calls without a reply, and must explain every denial.
//!
//! In addition, every request is recorded once, every charge belongs to a grant or to a call of unknown outcome, and
//! every key has a time to live.

use std::{
    fmt,
    time::{Duration, Instant, SystemTime},
};

use ratekeeper_core::{Source, Span, Timestamp};
use ratekeeper_redis::Counts;
use ratekeeper_testkit::servers::{RedisServer, Reply};

/// Permits per second, and burst, of every key. A key needs a second to return to its initial state, so a server that
/// restarts within that time shows what it has lost.
pub(crate) const RATE: u64 = 100;
pub(crate) const BURST: u64 = 100;
/// Highest cost of a request.
pub(crate) const DEAREST: u64 = 3;

/// One request, with the times of its invocation and its completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) key: usize,
    pub(crate) cost: u64,
    pub(crate) invoked: Instant,
    pub(crate) completed: Instant,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Allowed(Report),
    Denied(Report),
    Failed,
}

/// The source of a decision, and the time of the decision by the source's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) source: Source,
    pub(crate) at: Timestamp,
}

/// A time at which the store lost some keys, or may have lost them.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) at: Timestamp,
    pub(crate) keys: Vec<usize>,
}

/// Events that determine whether a denial is justified.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    Counted(u64),
    MayBeCounted(u64),
    Refused(u64),
}

/// One time on two clocks: the one that times calls, and the store's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    instant: Instant,
    store: Timestamp,
}

impl Clocks {
    pub(crate) fn now() -> Self {
        Self { instant: Instant::now(), store: SystemTime::now().into() }
    }

    fn at(&self, moment: Instant) -> Timestamp {
        let after = moment.saturating_duration_since(self.instant);
        let before = self.instant.saturating_duration_since(moment);
        self.store + Span::from_duration(after) - Span::from_duration(before)
    }
}

/// The record of a run.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) name: &'static str,
    pub(crate) clock: Clocks,
    /// Counted before each request is sent.
    pub(crate) requests: u64,
    pub(crate) calls: Vec<Call>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) counts: Counts,
    /// Permits used according to the store, per key.
    pub(crate) used: Vec<u64>,
}

/// Totals of a run, and how close it came to its bounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// Calls that the store decided.
    pub(crate) exact: u64,
    /// Permits admitted by the store.
    pub(crate) granted: u64,
    /// Permits admitted by the local share.
    pub(crate) granted_here: u64,
    /// Permits that the store has counted.
    pub(crate) charged: u64,
    /// Highest level of any key's meter, of [`BURST`].
    pub(crate) fullest: u64,
    /// The same without lowering the meter for losses.
    pub(crate) fullest_unforgiven: u64,
    pub(crate) slowest: Duration,
}

impl Call {
    pub(crate) fn report(&self) -> Option<Report> {
        match self.outcome {
            Outcome::Allowed(report) | Outcome::Denied(report) => Some(report),
            Outcome::Failed => None,
        }
    }

    pub(crate) fn is_from(&self, source: Source) -> bool {
        self.report().is_some_and(|report| report.source == source)
    }

    /// Permits that it was granted, by the store or locally.
    pub(crate) fn granted(&self) -> u64 {
        if matches!(self.outcome, Outcome::Allowed(_)) { self.cost } else { 0 }
    }

    fn granted_by(&self, source: Source) -> Option<Timestamp> {
        match self.outcome {
            Outcome::Allowed(report) if report.source == source => Some(report.at),
            _ => None,
        }
    }
}

impl Books {
    /// Checks the run against every bound, and prints the margins.
    #[track_caller]
    pub(crate) fn check(&self, servers: &[&RedisServer]) -> Tally {
        let mut tally = self.balance();
        for key in 0..self.used.len() {
            let by_store = self.fullest(key, Source::Store, &self.losses);
            assert!(by_store <= BURST, "{}: key {key}: {by_store} above the leak, {BURST} allowed", self.name);
            self.check_denials(key);
            let here = self.fullest(key, Source::Local, &[]);
            assert!(here <= BURST, "{}: key {key}: {here} above the leak locally, {BURST} allowed", self.name);
            if self.losses.is_empty() {
                let all = self.fullest_of(key, &|_| true, &[]);
                assert!(
                    all <= BURST + CLOCK_SLACK,
                    "{}: key {key}: {all} above the leak in all, {BURST} allowed",
                    self.name
                );
            }
            tally.fullest = tally.fullest.max(by_store);
            tally.fullest_unforgiven = tally.fullest_unforgiven.max(self.fullest(key, Source::Store, &[]));
        }
        self.check_charges(&tally);
        for server in servers {
            every_key_expires(server);
        }
        println!("{}: {tally}; {} losses; {:?}", self.name, self.losses.len(), self.counts);
        tally
    }

    /// requests = allowed + denied + errors, and the store counts as many decisions as the calls report.
    #[track_caller]
    fn balance(&self) -> Tally {
        let mut tally = Tally::default();
        let mut failed = 0;
        for call in &self.calls {
            match call.outcome {
                Outcome::Allowed(_) => tally.allowed += 1,
                Outcome::Denied(_) => tally.denied += 1,
                Outcome::Failed => failed += 1,
            }
            tally.exact += u64::from(call.is_from(Source::Store));
            tally.granted += call.granted_by(Source::Store).map_or(0, |_| call.cost);
            tally.granted_here += call.granted_by(Source::Local).map_or(0, |_| call.cost);
            tally.slowest = tally.slowest.max(call.completed - call.invoked);
        }
        tally.charged = self.used.iter().sum();
        assert_eq!(self.requests, tally.allowed + tally.denied + failed, "{}: requests", self.name);
        assert_eq!(failed, 0, "{}: a rule with `local` decides every call", self.name);
        let counts = &self.counts;
        assert_eq!(counts.decided_by_store, tally.exact, "{}: decisions by the store", self.name);
        let without = counts.decided_locally + counts.let_through + counts.turned_away;
        assert_eq!(without, self.requests - tally.exact, "{}: decisions without it", self.name);
        tally
    }

    /// Highest level of the key's meter by the store's grants, not lowered for losses.
    pub(crate) fn fullest_by_store(&self, key: usize) -> u64 {
        self.fullest(key, Source::Store, &[])
    }

    /// Highest level of the key's meter by grants of this source, in permits, rounded up.
    fn fullest(&self, key: usize, source: Source, losses: &[Loss]) -> u64 {
        self.fullest_of(key, &|report| report == source, losses)
    }

    fn fullest_of(&self, key: usize, counts: &dyn Fn(Source) -> bool, losses: &[Loss]) -> u64 {
        let of_key = self.calls.iter().filter(|call| call.key == key);
        let granted = of_key.filter_map(|call| match call.outcome {
            Outcome::Allowed(report) if counts(report.source) => Some((report.at, call.cost)),
            _ => None,
        });
        let mut events: Vec<(Timestamp, u64)> = granted.collect();
        events.extend(losses.iter().filter(|loss| loss.keys.contains(&key)).map(|loss| (loss.at, 0)));
        events.sort_unstable();
        let (mut level, mut fullest, mut last) = (0, 0, Timestamp::EPOCH);
        for (at, cost) in events {
            level = u64::saturating_sub(level, at.since(last).as_micros().saturating_mul(RATE));
            level = if cost == 0 { level.saturating_sub(BURST * SCALE) } else { level + cost * SCALE };
            fullest = fullest.max(level);
            last = at;
        }
        fullest.div_ceil(SCALE)
    }

    /// The limit explains every denial by the store. A call without a reply may have been counted at its invocation or
    /// at its completion.
    #[track_caller]
    fn check_denials(&self, key: usize) {
        let mut events: Vec<(Timestamp, Event)> = Vec::new();
        let is_here = |call: &Call| call.key == key && call.granted_by(Source::Local).is_some();
        let rounding = if self.calls.iter().any(is_here) { CHARGE_ROUNDING } else { 0 };
        for call in self.calls.iter().filter(|call| call.key == key) {
            match call.outcome {
                Outcome::Allowed(Report { source: Source::Store, at }) => events.push((at, Event::Counted(call.cost))),
                Outcome::Denied(Report { source: Source::Store, at }) => events.push((at, Event::Refused(call.cost))),
                _ => events.extend(
                    [call.invoked, call.completed].map(|at| (self.clock.at(at), Event::MayBeCounted(call.cost))),
                ),
            }
        }
        // At equal times, counted events sort before refusals.
        events.sort_unstable();
        let (mut level, mut last) = (0, Timestamp::EPOCH);
        for (at, event) in events {
            level = u64::saturating_sub(level, at.since(last).as_micros().saturating_mul(RATE));
            last = at;
            match event {
                Event::Counted(cost) | Event::MayBeCounted(cost) => level = (level + cost * SCALE).min(BURST * SCALE),
                Event::Refused(cost) => {
                    let room = BURST * SCALE - level;
                    assert!(
                        room < (cost + rounding) * SCALE,
                        "{}: key {key}: {cost} refused at {at:?} with room for {room} millionths",
                        self.name
                    );
                }
            }
        }
    }

    /// No permit is charged twice: every charge was granted, by the store or locally, or belongs to a call without a
    /// reply.
    #[track_caller]
    fn check_charges(&self, tally: &Tally) {
        let unknown = self.counts.ambiguous_calls * DEAREST;
        let granted = tally.granted + tally.granted_here;
        assert!(tally.charged <= granted + unknown, "{}: charged twice: {tally}", self.name);
        if self.losses.is_empty() {
            assert!(tally.charged >= tally.granted, "{}: forgotten: {tally}", self.name);
        }
    }
}

/// Every key that the store writes has an expiry.
#[track_caller]
pub(crate) fn every_key_expires(server: &RedisServer) {
    let keys = server.command(&["KEYS", "*"]).expect_ok();
    for key in keys.items() {
        let Reply::Bulk(name) = key else { panic!("expected a name, found {key:?}") };
        let lives = server.command(&[b"PTTL".as_slice(), name]).integer();
        assert!(lives > 0 || lives == GONE_MEANWHILE, "{} never expires", String::from_utf8_lossy(name));
    }
}

/// Local decisions are timed by an estimate of the server's clock: an error of a few milliseconds, at 100 per second.
const CLOCK_SLACK: u64 = 2;
/// Each charge for local grants rounds up to whole permits. Requests that wait together are granted together, and up to
/// four charges may precede the next decision of the store.
const CHARGE_ROUNDING: u64 = 4;
const GONE_MEANWHILE: i64 = -2;
/// Units of a permit: microseconds in a second, so that the meter leaks a whole number of units per microsecond.
const SCALE: u64 = 1_000_000;

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allowed, denied, exact, granted, granted_here, charged, fullest, fullest_unforgiven, slowest } =
            self;
        write!(
            f,
            "{allowed} allowed, {denied} denied, {exact} by the store; {granted} permits granted and {granted_here} here, {charged} charged; \
             fullest {fullest} of {BURST} ({fullest_unforgiven} if losses were not forgiven); slowest {slowest:?}"
        )
    }
}

mod tests {
    use super::*;

    fn books(admitted: &[(u64, u64)], losses: &[u64]) -> Books {
        let now = Instant::now();
        let call = |&(ms, cost): &(u64, u64)| Call {
            key: 0,
            cost,
            invoked: now,
            completed: now,
            outcome: Outcome::Allowed(Report { source: Source::Store, at: Timestamp::from_millis(ms) }),
        };
        let calls: Vec<Call> = admitted.iter().map(call).collect();
        let loss = |ms: &u64| Loss { at: Timestamp::from_millis(*ms), keys: vec![0] };
        let used = vec![admitted.iter().map(|(_, cost)| cost).sum()];
        let mut counts = Counts::default();
        counts.decided_by_store = calls.len() as u64;
        let (requests, losses) = (calls.len() as u64, losses.iter().map(loss).collect());
        Books { name: "checker", clock: Clocks::now(), requests, calls, losses, counts, used }
    }

    /// 100 per second are 10 in 100 ms. After a burst, one permit more than that is found.
    #[test]
    fn a_checker_finds_one_permit_too_many_in_any_window() {
        assert_eq!(books(&[(0, 100), (100, 10), (150, 5)], &[]).check(&[]).fullest, 100);
        for over in [&[(0, 100), (100, 10), (150, 6)][..], &[(0, 101)], &[(0, 50), (5, 50), (5, 1)]] {
            let outcome = std::panic::catch_unwind(|| books(over, &[]).check(&[]));
            assert!(outcome.is_err(), "{over:?}");
        }
    }

    #[test]
    fn a_loss_is_worth_one_burst_and_no_more() {
        assert_eq!(books(&[(0, 100), (1, 100)], &[1]).check(&[]).fullest_unforgiven, 200);
        assert!(std::panic::catch_unwind(|| books(&[(0, 100), (1, 101)], &[1]).check(&[])).is_err());
        assert!(std::panic::catch_unwind(|| books(&[(0, 100), (1, 100), (2, 100)], &[1]).check(&[])).is_err());
    }

    /// After a burst of 100, 10 permits are free again every 100 ms; a denial that they would have covered is found.
    #[test]
    fn a_checker_finds_a_denial_that_nothing_explains() {
        let refuse = |ms: u64, cost| {
            let mut books = books(&[(0, 100), (100, 1)], &[]);
            let report = Report { source: Source::Store, at: Timestamp::from_millis(ms) };
            books.calls.push(Call { cost, outcome: Outcome::Denied(report), ..books.calls[0] });
            (books.requests, books.counts.decided_by_store) = (3, 3);
            std::panic::catch_unwind(|| books.check(&[])).is_ok()
        };
        assert!(refuse(0, 1) && refuse(99, 10) && refuse(100, 10) && refuse(109, 10));
        assert!(!refuse(100, 9) && !refuse(110, 10) && !refuse(2_000, 100));
    }

    #[test]
    fn a_checker_finds_charges_without_grants_and_counts_that_differ() {
        let broken: [fn(&mut Books); 4] = [
            |books| books.used[0] += 1,
            |books| books.used[0] -= 1,
            |books| books.requests += 1,
            |books| books.counts.decided_by_store += 1,
        ];
        for wrong in broken {
            let mut books = books(&[(0, 4)], &[]);
            wrong(&mut books);
            assert!(std::panic::catch_unwind(|| books.check(&[])).is_err());
        }
        let mut unknown = books(&[(0, 4)], &[]);
        (unknown.counts.ambiguous_calls, unknown.used[0]) = (1, 7);
        unknown.check(&[]);
    }
}
