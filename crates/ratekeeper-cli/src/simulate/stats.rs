//! Statistics of a run: totals, the fullest window of each rule, and, for a plot, the same over time.

use ratekeeper_core::{Decision, Period, Policy, ReadyRule, Span, Timestamp, Verb, Verdict, algorithm::AnyAlgorithm};

use super::{
    peak_windows::{KeyId, PeakWindows},
    replay::Decided,
    timeline::Timeline,
};

/// Statistics of one policy.
#[derive(Debug)]
pub(crate) struct RunStats {
    pub(crate) policy: String,
    pub(crate) totals: Totals,
    pub(crate) rules: Vec<RuleStats>,
    pub(crate) timeline: Option<Timeline>,
    windows: PeakWindows,
}

/// Counts of a whole run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) never: u64,
    pub(crate) permits: u64,
    /// Permits that were asked for and refused.
    pub(crate) refused: u64,
}

/// Statistics of one rule.
#[derive(Debug)]
pub(crate) struct RuleStats {
    pub(crate) name: String,
    /// Permits per period without the burst, or permits that may be held.
    pub(crate) limit: u64,
    pub(crate) gauge: Gauge,
    /// The maximum over time and keys.
    pub(crate) peak: u64,
    /// Time of the maximum.
    pub(crate) peak_at: Timestamp,
    fullest: Option<Fullest>,
}

/// What is measured for a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Gauge {
    /// Permits granted within this span.
    Window(Span),
    /// Permits held.
    Held,
}

/// The key with the fullest window now, for the time between requests.
#[derive(Clone, Copy, Debug)]
enum Fullest {
    Window(KeyId),
    Held { permits: u64, until: Timestamp },
}

impl RunStats {
    pub(crate) fn new(policy: &Policy, plot: bool) -> Self {
        let rules: Vec<RuleStats> = policy.rules().iter().map(RuleStats::new).collect();
        let longest = rules.iter().filter_map(|rule| rule.gauge.span()).max().unwrap_or_default();
        let timeline = plot.then(|| Timeline::new(rules.len()));
        let policy = policy.name().to_owned();
        Self { policy, totals: Totals::default(), rules, timeline, windows: PeakWindows::new(longest) }
    }

    /// Whether memory was short, so that the fullest windows are lower bounds.
    pub(crate) fn is_short(&self) -> bool {
        self.windows.is_short()
    }

    /// Adds one decision.
    pub(crate) fn add(&mut self, decided: Decided<'_>) {
        let Decided { request, cost, verb, decision } = decided;
        self.advance_to(request.at);
        self.totals.requests += 1;
        match *verb {
            Verb::Take(_) => self.take(decided),
            Verb::Refund { at } => self.windows.refund(request.key, cost, at, request.at),
            Verb::Settle { actual, at } if actual <= cost => {
                self.windows.refund(request.key, cost - actual, at, request.at);
            }
            Verb::Settle { actual, .. } => self.granted(request.key, actual - cost, request.at, request.at),
            _ => {}
        }
        self.held(decision, request.at);
    }

    /// Completes the timeline.
    pub(crate) fn finish(&mut self) {
        if let Some(last) = self.timeline.as_ref().and_then(Timeline::last) {
            self.advance_to(last);
        }
    }

    fn take(&mut self, decided: Decided<'_>) {
        let Decided { request, cost, decision, .. } = decided;
        match decision.verdict {
            Verdict::Allow { wait } => {
                self.totals.allowed += 1;
                self.totals.permits += cost;
                if cost > 0 {
                    self.granted(request.key, cost, request.at + wait, request.at);
                }
            }
            Verdict::Deny { .. } => self.totals.denied += 1,
            Verdict::Never => self.totals.never += 1,
        }
        if !decision.is_allowed() {
            self.totals.refused += cost;
            if let Some(timeline) = &mut self.timeline {
                timeline.refused(request.at, cost);
            }
        }
    }

    /// Adds permits to every rule's window.
    fn granted(&mut self, key: &str, cost: u64, at: Timestamp, now: Timestamp) {
        if let Some(timeline) = &mut self.timeline {
            timeline.admitted(at, cost);
        }
        let Some(key) = self.windows.add(key, cost, at, now) else { return };
        for (index, rule) in self.rules.iter_mut().enumerate() {
            let Gauge::Window(span) = rule.gauge else { continue };
            let count = self.windows.count(key, span, at);
            rule.record(count, at);
            if let Some(timeline) = &mut self.timeline {
                timeline.fullness(index, at, count);
                let other = rule.fullest.map_or(0, |fullest| fullest.at(at, span, &self.windows));
                if count >= other {
                    rule.fullest = Some(Fullest::Window(key));
                }
            }
        }
    }

    /// Measures concurrency rules by the numbers of the decision.
    fn held(&mut self, decision: &Decision, now: Timestamp) {
        for (index, (rule, result)) in self.rules.iter_mut().zip(decision.rules.iter()).enumerate() {
            if rule.gauge != Gauge::Held {
                continue;
            }
            let permits = result.limit - result.remaining;
            rule.record(permits, now);
            if let Some(timeline) = &mut self.timeline {
                timeline.fullness(index, now, permits);
                rule.fullest = Some(Fullest::Held { permits, until: now + result.reset_after });
            }
        }
    }

    /// Fills the bins since the last request, in which windows only became emptier.
    fn advance_to(&mut self, now: Timestamp) {
        let Some(timeline) = &mut self.timeline else { return };
        for moment in timeline.advance_to(now) {
            for (index, rule) in self.rules.iter().enumerate() {
                let span = rule.gauge.span().unwrap_or_default();
                let count = rule.fullest.map_or(0, |fullest| fullest.at(moment, span, &self.windows));
                timeline.fullness(index, moment, count);
            }
        }
    }
}

impl RuleStats {
    fn new(rule: &ReadyRule) -> Self {
        let gauge = match (rule.algorithm(), rule.rule().quota().period()) {
            (AnyAlgorithm::Leases(_) | AnyAlgorithm::AutoBlock(_), _) => Gauge::Held,
            (_, Period::Span(span)) => Gauge::Window(span),
            (_, Period::Month) => Gauge::Window(LONGEST_MONTH),
            (_, Period::Year) => Gauge::Window(LONGEST_YEAR),
        };
        let limit = rule.rule().quota().limit();
        Self { name: rule.name().to_owned(), limit, gauge, peak: 0, peak_at: Timestamp::EPOCH, fullest: None }
    }

    fn record(&mut self, count: u64, at: Timestamp) {
        if count > self.peak {
            (self.peak, self.peak_at) = (count, at);
        }
    }
}

impl Gauge {
    fn span(self) -> Option<Span> {
        match self {
            Self::Window(span) => Some(span),
            Self::Held => None,
        }
    }
}

impl Fullest {
    fn at(self, moment: Timestamp, span: Span, windows: &PeakWindows) -> u64 {
        match self {
            Self::Window(key) => windows.count(key, span, moment),
            Self::Held { permits, until } if moment < until => permits,
            Self::Held { .. } => 0,
        }
    }
}

/// The window of a monthly rule.
const LONGEST_MONTH: Span = Span::from_micros(31 * Span::DAY.as_micros());
/// With a leap day, and an hour more.
const LONGEST_YEAR: Span = Span::from_micros(366 * Span::DAY.as_micros() + Span::HOUR.as_micros());
