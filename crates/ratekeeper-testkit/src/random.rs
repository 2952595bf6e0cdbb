//! Seeded generator of rules, costs and times that prefers boundary cases.
//!
//! Uniform numbers almost never hit a boundary, and limiters fail at boundaries. So the generators prefer costs equal to
//! the limit and one above, times exactly as decided and one microsecond off, rates that do not divide a second, windows
//! of a few microseconds, and months at unusual offsets.

use std::time::Duration;

use ratekeeper_core::{
    AlgorithmSpec, Align, BlockAfter, LocalCalendar, Quota, Rule, Span, Take, Timestamp, UtcOffset, Weekday, Zone,
    algorithm::AnyAlgorithm, bounds,
};

/// A small generator: the same seed, the same numbers, on every machine. (SplitMix64.)
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// Algorithms and their variants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Token bucket, continuous.
    TokenBucket,
    /// Token bucket with a quota so large that its rate is rounded.
    Rounded,
    /// Leaky bucket with such a quota and an even outflow.
    RoundedShaped,
    /// Token bucket, stepwise.
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
    /// Days, weeks, months and years of a time zone.
    Local,
}

impl Kind {
    /// All of them but the rounded ones, which few quotas are.
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

/// Uniform values
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

    /// True with a probability of one in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = self.below(choices.len() as u64);
        choices[usize::try_from(index).unwrap()]
    }
}

/// Boundary cases
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
            let is_rounded = |bucket: AnyAlgorithm| matches!(bucket, AnyAlgorithm::Bucket(it) if it.is_rounded());
            let fits = match kind {
                Kind::Rounded | Kind::RoundedShaped => rule.compile().is_ok_and(is_rounded),
                _ => rule.compile().is_ok(),
            };
            if fits {
                return rule;
            }
        }
    }

    /// The same rule, which counts refused requests once in three times, if its algorithm can.
    pub fn counting(&mut self, rule: Rule) -> Rule {
        let holds = matches!(rule.algorithm(), AlgorithmSpec::Concurrency { .. });
        let counts = self.one_in(3);
        rule.count_refused(counts && !holds)
    }

    /// An automatic block with numbers that are reached soon.
    pub fn auto_block(&mut self, name: &str) -> Rule {
        let span = |random: &mut Self| Duration::from_micros(random.period().min(Span::DAY.as_micros()));
        let (within, block) = (span(self), span(self));
        let mut after = BlockAfter::new(self.between(1, 5), within, block);
        if self.one_in(2) {
            let at_most = block * self.pick(&[1, 2, 5, 1_000]);
            after = after.growing(self.pick(&[1, 2, 3, 100]), at_most.min(Duration::from_secs(8_000_000)));
        }
        Rule::auto_block(name, after)
    }

    fn any_rule(&mut self, name: &str, kind: Kind) -> Rule {
        let (limit, period) = (self.limit(), self.period());
        let quota = Quota::per_micros(limit, Span::from_micros(period));
        match kind {
            Kind::TokenBucket => Rule::token_bucket(name, self.with_burst(quota)),
            Kind::Rounded => Rule::token_bucket(name, self.large_quota()),
            Kind::RoundedShaped => Rule::leaky_bucket_shaped(name, self.large_quota()),
            Kind::Stepwise => Rule::token_bucket_stepwise(name, self.with_burst(quota)),
            Kind::Leaky => Rule::leaky_bucket(name, self.with_burst(quota)),
            Kind::Shaped => Rule::leaky_bucket_shaped(name, self.with_burst(quota)),
            Kind::Epoch => Rule::fixed_window(name, quota),
            Kind::FirstRequest => Rule::fixed_window_aligned(name, quota, Align::FirstRequest),
            Kind::Calendar => {
                let quota = self.pick(&[Quota::per_day(limit), Quota::per_week(limit), Quota::per_month(limit)]);
                let offset = self.pick(&[0, 60, 120, -300, 330, 345, -210, 840, -720, 1080, -1080]);
                Rule::fixed_window_aligned(name, quota, Align::Calendar(UtcOffset::minutes(offset)))
            }
            Kind::Local => {
                let zone = self.pick(&ZONES);
                let zone = Zone::named(zone).unwrap_or_else(|| panic!("{zone} is a time zone"));
                let calendar = LocalCalendar::new(zone);
                let (quota, calendar) = match self.below(4) {
                    0 => (Quota::per_day(limit), calendar),
                    1 => (Quota::per_week(limit), calendar.week_start(self.pick(&Weekday::ALL))),
                    2 => (Quota::per_month(limit), calendar.month_day(self.pick(&[1, 2, 15, 28, 29, 30, 31]))),
                    _ => (Quota::per_year(limit), calendar),
                };
                Rule::fixed_window_aligned(name, quota, Align::Local(calendar))
            }
            Kind::Log => Rule::sliding_log(name, quota),
            Kind::Counter => {
                let buckets = self.pick(&[1, 2, 3, 7, 10, 60, 1_000]);
                Rule::sliding_counter_with(name, quota, buckets)
            }
            Kind::Concurrency => Rule::concurrency(name, limit, Duration::from_micros(period)),
        }
    }

    /// A quota whose limit and period have few common factors and whose units exceed 2^50. Its burst is small enough for
    /// the other rules of a policy, and its period short enough for long episodes to end before the latest time.
    fn large_quota(&mut self) -> Quota {
        let limit = match self.below(3) {
            0 => self.pick(&[7_777, 12_345, 100_003, 1 << 40, (1 << 40) - 1]),
            1 => self.between(1 << 20, 1 << 40),
            _ => self.between(1_000, 1 << 20),
        };
        let period = match self.below(3) {
            0 => self.between(4, 60) * Span::DAY.as_micros(),
            _ => self.between(4 * Span::DAY.as_micros(), 60 * Span::DAY.as_micros()),
        };
        Quota::per_micros(limit, Span::from_micros(period)).burst(self.between(1_000, 5_000))
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

    /// A start time: mostly in this decade, sometimes the epoch or the end of a month.
    pub fn beginning(&mut self) -> Timestamp {
        Timestamp::from_micros(match self.below(8) {
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

    /// How long until the next request, given waits of earlier decisions and spans that matter to the rules.
    pub fn pause(&mut self, spans: &[u64]) -> Span {
        let span = self.pick(spans);
        Span::from_micros(match self.below(16) {
            0..=4 => 0,
            5 => 1,
            6 => self.below(10),
            7..=10 => self.around(span),
            11..=13 => self.below(span.max(1)),
            14 => self.below(4 * span.max(1)),
            _ if self.one_in(8) => self.below(40 * Span::DAY.as_micros()),
            _ => 2 * span,
        })
    }

    /// A take with a random acceptable wait.
    pub fn take(&mut self, spans: &[u64]) -> Take {
        let span = self.pick(spans);
        let max_wait = match self.below(12) {
            0..=4 => return Take::now(),
            5 => 0,
            6 | 7 => self.around(span),
            8 => self.below(2 * span.max(1)),
            9 => 10 * span,
            10 => bounds::MAX_WAIT.as_micros(),
            _ => self.below(1_000_000),
        };
        let mut take = Take::within(Span::from_micros(max_wait));
        take.whole_wait &= !self.one_in(4);
        take
    }
}

/// Zones with ordinary, half-hour and midnight transitions, with several a year, and without any.
const ZONES: [&str; 10] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Pacific/Chatham",
    "America/Havana",
    "UTC",
];
