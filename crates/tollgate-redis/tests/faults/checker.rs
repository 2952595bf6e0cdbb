//! The books of a run, and whether they keep the promises.
//!
//! Admissions are replayed by the time of the store that made them, into a meter that leaks at the rate. It never holds
//! more than the burst exactly if no window, however long, has admitted more than burst + rate × window. Each time the
//! store lost its memory, the meter is let down by one burst: that is the price of a loss, and all of it.
//!
//! The other way round, nobody is refused by the store while it has room: a second meter holds everything that the store
//! may have counted, calls whose answer never came included, and a denial must be explained by it.
//!
//! Beside that: every request is in the books once, nothing was charged that nobody was granted, except for calls whose
//! fate is unknown, and no key lives for ever.

use std::{
    fmt,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tollgate_core::{Micros, Source};
use tollgate_redis::Counts;
use tollgate_testkit::servers::{RedisServer, Reply};

/// Permits per second, and the most at once, of every key: a server that is back within the second has not been away for
/// long enough to owe nobody anything, so what it has forgotten shows.
pub(crate) const RATE: u64 = 100;
pub(crate) const BURST: u64 = 100;
/// The most that one request costs.
pub(crate) const DEAREST: u64 = 3;

/// One request, from when it was made to when it was answered.
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
    Allowed(Told),
    Denied(Told),
    Failed,
}

/// Who decided, and when by its clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) source: Source,
    pub(crate) at: Micros,
}

/// A moment at which the store forgot some keys, or may have.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) at: Micros,
    pub(crate) keys: Vec<usize>,
}

/// What a denial is held against.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    Counted(u64),
    MayBeCounted(u64),
    Refused(u64),
}

/// Both clocks at one moment: the one that calls are timed by, and the one that stores go by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    instant: Instant,
    store: Micros,
}

impl Clocks {
    pub(crate) fn now() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self { instant: Instant::now(), store: Micros::from_duration(since_epoch) }
    }

    fn at(&self, moment: Instant) -> Micros {
        let after = moment.saturating_duration_since(self.instant);
        let before = self.instant.saturating_duration_since(moment);
        self.store + Micros::from_duration(after) - Micros::from_duration(before)
    }
}

/// Everything that was written down in a run.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) name: &'static str,
    pub(crate) clock: Clocks,
    /// Counted before each request was made.
    pub(crate) requests: u64,
    pub(crate) calls: Vec<Call>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) counts: Counts,
    /// What the store says has been used, per key.
    pub(crate) used: Vec<u64>,
}

/// How close to its bounds a run has come.
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
    /// The fullest that any key's meter has been, of [`BURST`].
    pub(crate) fullest: u64,
    /// The same without letting it down for losses.
    pub(crate) fullest_unforgiven: u64,
    pub(crate) slowest: Duration,
}

impl Call {
    pub(crate) fn told(&self) -> Option<Told> {
        match self.outcome {
            Outcome::Allowed(told) | Outcome::Denied(told) => Some(told),
            Outcome::Failed => None,
        }
    }

    pub(crate) fn is_from(&self, source: Source) -> bool {
        self.told().is_some_and(|told| told.source == source)
    }

    /// Permits that it was granted, by whichever part.
    pub(crate) fn granted(&self) -> u64 {
        if matches!(self.outcome, Outcome::Allowed(_)) { self.cost } else { 0 }
    }

    fn granted_by(&self, source: Source) -> Option<Micros> {
        match self.outcome {
            Outcome::Allowed(told) if told.source == source => Some(told.at),
            _ => None,
        }
    }
}

impl Books {
    /// Holds the run against every promise, and says how close it was.
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

    /// requests = allowed + denied + errors, and the store counts as many decisions as were made.
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
        assert_eq!(failed, 0, "{}: a rule that says `local` has an answer to everything", self.name);
        let counts = &self.counts;
        assert_eq!(counts.decided_by_store, tally.exact, "{}: decisions by the store", self.name);
        let without = counts.decided_locally + counts.let_through + counts.turned_away;
        assert_eq!(without, self.requests - tally.exact, "{}: decisions without it", self.name);
        tally
    }

    /// The most that ever stood in the key's meter by the store's grants, losses or not.
    pub(crate) fn fullest_by_store(&self, key: usize) -> u64 {
        self.fullest(key, Source::Store, &[])
    }

    /// The most that ever stood in the key's meter by this source, in permits, rounded up.
    fn fullest(&self, key: usize, source: Source, losses: &[Loss]) -> u64 {
        self.fullest_of(key, &|told| told == source, losses)
    }

    fn fullest_of(&self, key: usize, counts: &dyn Fn(Source) -> bool, losses: &[Loss]) -> u64 {
        let of_key = self.calls.iter().filter(|call| call.key == key);
        let granted = of_key.filter_map(|call| match call.outcome {
            Outcome::Allowed(told) if counts(told.source) => Some((told.at, call.cost)),
            _ => None,
        });
        let mut events: Vec<(Micros, u64)> = granted.collect();
        events.extend(losses.iter().filter(|loss| loss.keys.contains(&key)).map(|loss| (loss.at, 0)));
        events.sort_unstable();
        let (mut level, mut fullest, mut last) = (0, 0, Micros::ZERO);
        for (at, cost) in events {
            level = u64::saturating_sub(level, (at - last).0.saturating_mul(RATE));
            level = if cost == 0 { level.saturating_sub(BURST * SCALE) } else { level + cost * SCALE };
            fullest = fullest.max(level);
            last = at;
        }
        fullest.div_ceil(SCALE)
    }

    /// Every denial by the store is one that its limit explains, whatever became of the calls it did not answer: those
    /// may have been counted when they were made, or when they were given up.
    #[track_caller]
    fn check_denials(&self, key: usize) {
        let mut events: Vec<(Micros, Event)> = Vec::new();
        let is_here = |call: &Call| call.key == key && call.granted_by(Source::Local).is_some();
        let rounding = if self.calls.iter().any(is_here) { CHARGE_ROUNDING } else { 0 };
        for call in self.calls.iter().filter(|call| call.key == key) {
            match call.outcome {
                Outcome::Allowed(Told { source: Source::Store, at }) => events.push((at, Event::Counted(call.cost))),
                Outcome::Denied(Told { source: Source::Store, at }) => events.push((at, Event::Refused(call.cost))),
                _ => events.extend(
                    [call.invoked, call.completed].map(|at| (self.clock.at(at), Event::MayBeCounted(call.cost))),
                ),
            }
        }
        // At one moment what was counted comes before what was refused.
        events.sort_unstable();
        let (mut level, mut last) = (0, Micros::ZERO);
        for (at, event) in events {
            level = u64::saturating_sub(level, (at - last).0.saturating_mul(RATE));
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

    /// Nobody was charged twice: what the store has counted was granted, by it or locally, or belongs to a call that got
    /// no answer.
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

/// Nothing that we wrote stays for ever.
#[track_caller]
pub(crate) fn every_key_expires(server: &RedisServer) {
    let keys = server.command(&["KEYS", "*"]).expect_ok();
    for key in keys.items() {
        let Reply::Bulk(name) = key else { panic!("expected a name, found {key:?}") };
        let lives = server.command(&[b"PTTL".as_slice(), name]).integer();
        assert!(lives > 0 || lives == GONE_MEANWHILE, "{} never expires", String::from_utf8_lossy(name));
    }
}

/// Local answers are timed by what is known here of the server's clock: a few milliseconds, at 100 a second.
const CLOCK_SLACK: u64 = 2;
/// Each charge for local grants rounds up to whole permits; two of them may fall into one moment.
const CHARGE_ROUNDING: u64 = 2;
const GONE_MEANWHILE: i64 = -2;
/// Microseconds in a second, so that the meter leaks a whole number in each.
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
            outcome: Outcome::Allowed(Told { source: Source::Store, at: Micros::from_millis(ms) }),
        };
        let calls: Vec<Call> = admitted.iter().map(call).collect();
        let loss = |ms: &u64| Loss { at: Micros::from_millis(*ms), keys: vec![0] };
        let used = vec![admitted.iter().map(|(_, cost)| cost).sum()];
        let mut counts = Counts::default();
        counts.decided_by_store = calls.len() as u64;
        let (requests, losses) = (calls.len() as u64, losses.iter().map(loss).collect());
        Books { name: "checker", clock: Clocks::now(), requests, calls, losses, counts, used }
    }

    /// 100 per second are 10 in 100 ms: after a burst, one more in the same instant is one too many.
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

    /// After 100 at once there is room for 10 every 100 ms, and whoever is refused 10 then was refused wrongly.
    #[test]
    fn a_checker_finds_a_denial_that_nothing_explains() {
        let refuse = |ms: u64, cost| {
            let mut books = books(&[(0, 100), (100, 1)], &[]);
            let told = Told { source: Source::Store, at: Micros::from_millis(ms) };
            books.calls.push(Call { cost, outcome: Outcome::Denied(told), ..books.calls[0] });
            (books.requests, books.counts.decided_by_store) = (3, 3);
            std::panic::catch_unwind(|| books.check(&[])).is_ok()
        };
        assert!(refuse(0, 1) && refuse(99, 10) && refuse(100, 10) && refuse(109, 10));
        assert!(!refuse(100, 9) && !refuse(110, 10) && !refuse(2_000, 100));
    }

    #[test]
    fn a_checker_finds_charges_that_nobody_was_granted_and_books_that_do_not_balance() {
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
