//! What a run came to: totals, each rule's fullest window, and, for a plot, the same over time.

use tollgate_core::{Decision, Micros, Period, Policy, ReadyRule, Verb, Verdict, algorithm::Limiting};

use super::{
    run::Answered,
    timeline::Timeline,
    windows::{Watched, Windows},
};

/// Watches a run.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) policy: String,
    pub(crate) totals: Totals,
    pub(crate) rules: Vec<RuleWatch>,
    pub(crate) timeline: Option<Timeline>,
    windows: Windows,
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

/// What is watched of one rule.
#[derive(Debug)]
pub(crate) struct RuleWatch {
    pub(crate) name: String,
    /// Permits per period as the rule says, a burst aside; or how many may be held.
    pub(crate) limit: u64,
    pub(crate) gauge: Gauge,
    /// The most that was ever seen, by one key.
    pub(crate) worst: u64,
    /// When that was.
    pub(crate) worst_at: Micros,
    fullest: Option<Fullest>,
}

/// How full a rule is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Gauge {
    /// By what went within this span.
    Window(Micros),
    /// By what is held.
    Held,
}

/// The key that is fullest at present, for the stretches in which nobody asks.
#[derive(Clone, Copy, Debug)]
enum Fullest {
    Window(Watched),
    Held { permits: u64, until: Micros },
}

impl Watch {
    pub(crate) fn new(policy: &Policy, plot: bool) -> Self {
        let rules: Vec<RuleWatch> = policy.rules().iter().map(RuleWatch::new).collect();
        let longest = rules.iter().filter_map(|rule| rule.gauge.span()).max().unwrap_or_default();
        let timeline = plot.then(|| Timeline::new(rules.len()));
        let policy = policy.name().to_owned();
        Self { policy, totals: Totals::default(), rules, timeline, windows: Windows::new(longest) }
    }

    /// Whether memory was short, so that the fullest windows may have been fuller.
    pub(crate) fn is_short(&self) -> bool {
        self.windows.is_short()
    }

    /// Takes note of one answer.
    pub(crate) fn note(&mut self, answered: Answered<'_>) {
        let Answered { request, verb, decision } = answered;
        self.pass_time(request.at);
        self.totals.requests += 1;
        match *verb {
            Verb::Take(take) => self.take(answered, take.cost),
            Verb::Refund { cost, at } => self.windows.give_back(request.key, cost, at, request.at),
            Verb::Settle { reserved, actual, at } if actual <= reserved => {
                self.windows.give_back(request.key, reserved - actual, at, request.at);
            }
            Verb::Settle { reserved, actual, .. } => self.went(request.key, actual - reserved, request.at, request.at),
            _ => {}
        }
        self.held(decision, request.at);
    }

    /// Lets the timeline run on to its end.
    pub(crate) fn finish(&mut self) {
        if let Some(last) = self.timeline.as_ref().and_then(Timeline::last) {
            self.pass_time(last);
        }
    }

    fn take(&mut self, answered: Answered<'_>, cost: u64) {
        let Answered { request, decision, .. } = answered;
        match decision.verdict {
            Verdict::Allow { wait } => {
                self.totals.allowed += 1;
                self.totals.permits += cost;
                if cost > 0 {
                    self.went(request.key, cost, request.at + wait, request.at);
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

    /// Permits go: every rule's window gets fuller.
    fn went(&mut self, key: &str, cost: u64, went: Micros, now: Micros) {
        if let Some(timeline) = &mut self.timeline {
            timeline.admitted(went, cost);
        }
        let Some(watched) = self.windows.add(key, cost, went, now) else { return };
        for (index, rule) in self.rules.iter_mut().enumerate() {
            let Gauge::Window(span) = rule.gauge else { continue };
            let count = self.windows.count(watched, span, went);
            rule.saw(count, went);
            if let Some(timeline) = &mut self.timeline {
                timeline.fullness(index, went, count);
                let other = rule.fullest.map_or(0, |fullest| fullest.at(went, span, &self.windows));
                if count >= other {
                    rule.fullest = Some(Fullest::Window(watched));
                }
            }
        }
    }

    /// Rules about holders are gauged by what they answer.
    fn held(&mut self, decision: &Decision, now: Micros) {
        for (index, (rule, told)) in self.rules.iter_mut().zip(decision.rules.iter()).enumerate() {
            if rule.gauge != Gauge::Held {
                continue;
            }
            let permits = told.limit - told.remaining;
            rule.saw(permits, now);
            if let Some(timeline) = &mut self.timeline {
                timeline.fullness(index, now, permits);
                rule.fullest = Some(Fullest::Held { permits, until: now + told.reset_after });
            }
        }
    }

    /// Fills in the stretch since the last request, in which windows only emptied.
    fn pass_time(&mut self, now: Micros) {
        let Some(timeline) = &mut self.timeline else { return };
        for moment in timeline.pass_until(now) {
            for (index, rule) in self.rules.iter().enumerate() {
                let span = rule.gauge.span().unwrap_or_default();
                let count = rule.fullest.map_or(0, |fullest| fullest.at(moment, span, &self.windows));
                timeline.fullness(index, moment, count);
            }
        }
    }
}

impl RuleWatch {
    fn new(rule: &ReadyRule) -> Self {
        let gauge = match (rule.limiting(), rule.rule().quota().period()) {
            (Limiting::Leases(_), _) => Gauge::Held,
            (_, Period::Span(span)) => Gauge::Window(span),
            (_, Period::Month) => Gauge::Window(LONGEST_MONTH),
        };
        let limit = rule.rule().quota().limit();
        Self { name: rule.name().to_owned(), limit, gauge, worst: 0, worst_at: Micros::ZERO, fullest: None }
    }

    fn saw(&mut self, count: u64, at: Micros) {
        if count > self.worst {
            (self.worst, self.worst_at) = (count, at);
        }
    }
}

impl Gauge {
    fn span(self) -> Option<Micros> {
        match self {
            Self::Window(span) => Some(span),
            Self::Held => None,
        }
    }
}

impl Fullest {
    fn at(self, moment: Micros, span: Micros, windows: &Windows) -> u64 {
        match self {
            Self::Window(watched) => windows.count(watched, span, moment),
            Self::Held { permits, until } if moment < until => permits,
            Self::Held { .. } => 0,
        }
    }
}

/// The window of a rule that counts by the month.
const LONGEST_MONTH: Micros = Micros(31 * Micros::DAY.0);
