//! An episode: a policy drawn by chance, one key, and a string of questions on a clock that moves forward.
//!
//! Episodes are many and short, so that a million steps meet many quotas; now and then one is long, so that what piles
//! up is met too. Each has its own seed. A failure prints the seed, the step and every question that led to it.

use tollgate_core::{Micros, Period, Rule, Take};
use tollgate_testkit::{
    gate::Gate,
    random::{Kind, Random},
};

/// What has happened so far, and chance to go on.
pub(crate) struct Episode {
    pub(crate) seed: u64,
    pub(crate) random: Random,
    pub(crate) rules: Vec<Rule>,
    pub(crate) gate: Gate,
    pub(crate) length: u64,
    /// Spans worth aiming at: periods, and whatever was told last.
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

    /// Moves the clock and makes up a question.
    pub(crate) fn next(&mut self) -> Take {
        let pause = self.random.pause(&self.spans);
        self.gate.advance(pause);
        let standing = self.gate.clone().peek();
        self.spans.truncate(self.fixed_spans);
        for rule in standing.rules.iter() {
            self.spans.push(rule.reset_after.0);
        }
        let rule = self.random.pick(&standing.rules);
        let cost = self.random.cost(rule.limit, rule.remaining);
        let take = self.random.take(cost, &self.spans);
        self.steps += 1;
        self.note(format!(
            "take {} within {}{}",
            take.cost,
            take.max_wait,
            if take.whole_wait { " whole" } else { "" }
        ));
        take
    }

    /// Remembers a wait that was told, to aim at it next.
    pub(crate) fn told(&mut self, wait: Option<Micros>) {
        self.spans.extend(wait.map(|wait| wait.0));
    }

    /// Writes into the story what happens besides the questions.
    pub(crate) fn note(&mut self, happened: String) {
        self.story.push(format!("  at {}: {happened}", self.gate.now.0));
    }

    /// Everything needed to play it again.
    pub(crate) fn story(&self) -> String {
        let told = |rule: &Rule| {
            let counts = if rule.counts_refused() { " counts refused" } else { "" };
            format!("  {} {:?}{counts}", rule.quota(), rule.algorithm())
        };
        let rules: Vec<String> = self.rules.iter().map(told).collect();
        format!("seed {} step {}\n{}\n{}", self.seed, self.steps, rules.join("\n"), self.story.join("\n"))
    }
}

/// The period, and the time one permit takes.
fn spans_of(rule: &Rule) -> [u64; 2] {
    let period = match rule.quota().period() {
        Period::Span(span) => span.0,
        Period::Month => 30 * Micros::DAY.0,
    };
    [period, period / rule.quota().limit()]
}

/// Runs episodes until they add up to a share of the steps wanted; or just the one episode that was asked for.
pub(crate) fn play(name: &str, share: u64, mut episode_of: impl FnMut(u64) -> u64) {
    if let Ok(seed) = std::env::var("TOLLGATE_LAW_SEED") {
        episode_of(seed.parse().expect("TOLLGATE_LAW_SEED is a number"));
        return;
    }
    let steps: u64 = std::env::var("TOLLGATE_LAW_STEPS").map_or(1_000_000, |steps| steps.parse().expect("a number"));
    // Every law has seeds of its own, so that they do not all meet the same quotas.
    let mut seeds = Random::new(name.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(31) + u64::from(byte)));
    let mut done = 0;
    while done < steps / share {
        done += episode_of(seeds.bits());
    }
}
