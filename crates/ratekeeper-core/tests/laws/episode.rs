//! Episode: a random policy, one key, and a sequence of requests on a clock that moves forward.
//!
//! Episodes are many and short, so that a million steps cover many quotas; some are long, so that accumulated state is
//! covered too. Each has its own seed. A failure prints the seed, the step and every request that led to it.

use ratekeeper_core::{Period, Rule, Span, Take};
use ratekeeper_testkit::{
    gate::Gate,
    random::{Kind, Random},
};

/// The history so far, and the generator.
pub(crate) struct Episode {
    pub(crate) seed: u64,
    pub(crate) random: Random,
    pub(crate) rules: Vec<Rule>,
    pub(crate) gate: Gate,
    pub(crate) length: u64,
    /// Spans worth aiming at: periods, and the waits of the last decision.
    spans: Vec<u64>,
    fixed_spans: usize,
    steps: u64,
    story: Vec<String>,
}

impl Episode {
    pub(crate) fn new(seed: u64, kinds: &[Kind]) -> Self {
        let mut random = Random::new(seed);
        let any = |(index, kind): (usize, &Kind)| {
            let rule = random.rule(&format!("{kind:?} {index}"), *kind);
            random.counting(rule)
        };
        let rules: Vec<Rule> = kinds.iter().enumerate().map(any).collect();
        let gate = Gate::of(rules.clone()).starting_at(random.beginning());
        let length = if random.one_in(60) { 400 } else { random.between(4, 40) };
        let spans: Vec<u64> = rules.iter().flat_map(spans_of).collect();
        Self { seed, random, rules, gate, length, fixed_spans: spans.len(), spans, steps: 0, story: Vec::new() }
    }

    /// Moves the clock and generates a take with its cost.
    pub(crate) fn next(&mut self) -> (u64, Take) {
        let pause = self.random.pause(&self.spans);
        self.gate.advance(pause);
        let standing = self.gate.clone().peek();
        self.spans.truncate(self.fixed_spans);
        for rule in standing.rules.iter() {
            self.spans.push(rule.reset_after.as_micros());
        }
        let rule = self.random.pick(&standing.rules);
        let cost = self.random.cost(rule.limit, rule.remaining);
        let take = self.random.take(&self.spans);
        self.steps += 1;
        self.note(format!("take {} within {}{}", cost, take.max_wait, if take.whole_wait { " whole" } else { "" }));
        (cost, take)
    }

    /// Stores a wait of a decision, so that later steps use it.
    pub(crate) fn note_wait(&mut self, wait: Option<Span>) {
        self.spans.extend(wait.map(|wait| wait.as_micros()));
    }

    /// Adds an event other than a request to the history.
    pub(crate) fn note(&mut self, happened: String) {
        self.story.push(format!("  at {}: {happened}", self.gate.now.as_micros()));
    }

    /// Everything needed to replay it.
    pub(crate) fn story(&self) -> String {
        let describe = |rule: &Rule| {
            let counts = if rule.counts_refused() { " counts refused" } else { "" };
            format!("  {} {:?}{counts}", rule.quota(), rule.algorithm())
        };
        let rules: Vec<String> = self.rules.iter().map(describe).collect();
        format!("seed {} step {}\n{}\n{}", self.seed, self.steps, rules.join("\n"), self.story.join("\n"))
    }
}

/// The period, and the time one permit takes.
fn spans_of(rule: &Rule) -> [u64; 2] {
    let period = match rule.quota().period() {
        Period::Span(span) => span.as_micros(),
        Period::Month => 30 * Span::DAY.as_micros(),
        Period::Year => 365 * Span::DAY.as_micros(),
    };
    [period, period / rule.quota().limit()]
}

/// Runs episodes until they add up to a share of the steps wanted; or just the one episode that was asked for.
pub(crate) fn play(name: &str, share: u64, mut episode_of: impl FnMut(u64) -> u64) {
    if let Ok(seed) = std::env::var("RATEKEEPER_LAW_SEED") {
        episode_of(seed.parse().expect("RATEKEEPER_LAW_SEED is a number"));
        return;
    }
    let steps: u64 = std::env::var("RATEKEEPER_LAW_STEPS").map_or(1_000_000, |steps| steps.parse().expect("a number"));
    // Every law has different seeds, so that they do not all meet the same quotas.
    let mut seeds = Random::new(name.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(31) + u64::from(byte)));
    let mut done = 0;
    while done < steps / share {
        done += episode_of(seeds.bits());
    }
}
