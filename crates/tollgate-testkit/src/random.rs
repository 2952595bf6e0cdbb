//! Chance with a seed, and a taste for edges.
//!
//! Uniform numbers almost never land on a boundary, and boundaries are where limiters go wrong. So every helper here
//! prefers the interesting: costs equal to the limit and one above, moments exactly as told and a microsecond to either
//! side, rates that do not divide a second, windows of a few microseconds, months in odd offsets.

use std::time::Duration;

use tollgate_core::{Algorithm, Align, Micros, Quota, Rule, Take, UtcOffset, bounds};

/// A small generator: the same seed, the same numbers, on every machine. (SplitMix64.)
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// The ways of counting, as a test wants to tell them apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Token bucket, drop by drop.
    TokenBucket,
    /// Token bucket, in lumps.
    Stepwise,
    /// Leaky bucket as a meter.
    Leaky,
    /// Leaky bucket with an even outflow.
    Shaped,
    /// Windows at multiples of the period.
    Epoch,
    /// Windows from the first request.
    FirstRequest,
    /// Days, weeks and months.
    Calendar,
    /// Exact sliding window.
    Log,
    /// Sliding window in slices.
    Counter,
    /// Holders at one time.
    Concurrency,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::TokenBucket,
        Self::Stepwise,
        Self::Leaky,
        Self::Shaped,
        Self::Epoch,
        Self::FirstRequest,
        Self::Calendar,
        Self::Log,
        Self::Counter,
        Self::Concurrency,
    ];
}

/// Plain chance
impl Random {
    /// A generator that starts from this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to, and not including, `end`. 0 if that is empty.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias of the remainder is far below what any test here could notice.
        if end == 0 { 0 } else { self.bits() % end }
    }

    /// Both ends included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = self.below(choices.len() as u64);
        choices[usize::try_from(index).unwrap()]
    }
}

/// Edges
impl Random {
    /// A number, or one of its neighbours.
    pub fn around(&mut self, number: u64) -> u64 {
        match self.below(4) {
            0 => number.saturating_sub(1),
            1 => number + 1,
            _ => number,
        }
    }

    /// A rule of this kind. Its quota is always one that the core accepts.
    pub fn rule(&mut self, name: &str, kind: Kind) -> Rule {
        loop {
            let rule = self.any_rule(name, kind);
            if rule.limiting().is_ok() {
                return rule;
            }
        }
    }

    /// The same rule, which counts refused requests once in three times, if its algorithm can.
    pub fn counting(&mut self, rule: Rule) -> Rule {
        let holds = matches!(rule.algorithm(), Algorithm::Concurrency { .. });
        let counts = self.one_in(3);
        rule.count_refused(counts && !holds)
    }

    fn any_rule(&mut self, name: &str, kind: Kind) -> Rule {
        let (limit, period) = (self.limit(), self.period());
        let quota = Quota::per_micros(limit, Micros(period));
        match kind {
            Kind::TokenBucket => Rule::token_bucket(name, self.with_burst(quota)),
            Kind::Stepwise => Rule::token_bucket(name, self.with_burst(quota)).stepwise(),
            Kind::Leaky => Rule::leaky_bucket(name, self.with_burst(quota)),
            Kind::Shaped => Rule::leaky_bucket(name, self.with_burst(quota)).shaped(),
            Kind::Epoch => Rule::fixed_window(name, quota),
            Kind::FirstRequest => Rule::fixed_window(name, quota).align(Align::FirstRequest),
            Kind::Calendar => {
                let quota = self.pick(&[Quota::per_day(limit), Quota::per_week(limit), Quota::per_month(limit)]);
                let offset = self.pick(&[0, 60, 120, -300, 330, 345, -210, 840, -720, 1080, -1080]);
                Rule::fixed_window(name, quota).align(Align::Calendar(UtcOffset::minutes(offset)))
            }
            Kind::Log => Rule::sliding_log(name, quota),
            Kind::Counter => {
                let buckets = self.pick(&[1, 2, 3, 7, 10, 60, 1_000]);
                Rule::sliding_counter(name, quota).buckets(buckets)
            }
            Kind::Concurrency => Rule::concurrency(name, limit, Duration::from_micros(period)),
        }
    }

    fn limit(&mut self) -> u64 {
        match self.below(4) {
            0 => self.pick(&[1, 2, 3]),
            1 => self.pick(&[5, 7, 10, 13, 100, 997, 1_000]),
            _ => self.between(1, 20),
        }
    }

    fn period(&mut self) -> u64 {
        match self.below(4) {
            0 => self.pick(&[1, 2, 3, 7, 10, 11, 100]),
            1 => self.pick(&[997, 1_000, 250_000, 333_333, 60_000_000, 3_600_000_000, 86_400_000_000, 604_800_000_000]),
            2 => self.between(1, 50_000),
            _ => 1_000_000,
        }
    }

    fn with_burst(&mut self, quota: Quota) -> Quota {
        let limit = quota.limit();
        match self.below(6) {
            0 | 1 => quota,
            2 => quota.burst(self.pick(&[1, 2, 3])),
            3 => quota.burst(2 * limit),
            4 => quota.burst(self.around(limit).max(1)),
            _ => quota.burst(self.between(1, 40)),
        }
    }

    /// Somewhere a test may begin: mostly this decade, at times the epoch itself or the end of a month.
    pub fn beginning(&mut self) -> Micros {
        Micros(match self.below(8) {
            0 => self.below(50),
            1 => self.around(1_709_251_200_000_000), // 1 March of a leap year
            2 => self.around(1_798_761_600_000_000), // new year 2027
            _ => 1_700_000_000_000_000 + self.below(200_000_000_000_000),
        })
    }

    /// A cost for a key with this limit and this much remaining.
    pub fn cost(&mut self, limit: u64, remaining: u64) -> u64 {
        match self.below(16) {
            0 => 0,
            1 => limit,
            2 => limit + 1,
            3 => limit.saturating_sub(1),
            4 => remaining,
            5 => remaining + 1,
            6..=8 => self.between(1, limit),
            9 => self.between(1, limit.div_ceil(2)),
            _ => 1,
        }
    }

    /// How long until the next request, given spans that were told or that matter to the rules.
    pub fn pause(&mut self, spans: &[u64]) -> Micros {
        let span = self.pick(spans);
        Micros(match self.below(16) {
            0..=4 => 0,
            5 => 1,
            6 => self.below(10),
            7..=10 => self.around(span),
            11..=13 => self.below(span.max(1)),
            14 => self.below(4 * span.max(1)),
            _ if self.one_in(8) => self.below(40 * Micros::DAY.0),
            _ => 2 * span,
        })
    }

    /// A question: the cost, and how patiently it is asked.
    pub fn take(&mut self, cost: u64, spans: &[u64]) -> Take {
        let span = self.pick(spans);
        let patience = match self.below(12) {
            0..=4 => return Take::now(cost),
            5 => 0,
            6 | 7 => self.around(span),
            8 => self.below(2 * span.max(1)),
            9 => 10 * span,
            10 => bounds::MAX_WAIT.0,
            _ => self.below(1_000_000),
        };
        let take = Take::within(cost, Micros(patience));
        if self.one_in(4) { Take { whole_wait: false, ..take } } else { take }
    }
}
