//! Comparison of protocols: worst excess, utilisation and calls per decision, without faults.
//!
//! Ten processes, a limit of 10 000 permits per second, demand of twice that, five shapes. Utilisation is what was
//! admitted, as a part of what one limiter would have admitted that decides everything.

use ratekeeper_core::{Policy, Quota, Rule, Span, Speed, algorithm::Algorithm};
use ratekeeper_testkit::random::Random;

use super::{
    checker::{Use, excess},
    demand::{DemandBatch, DemandShape, Load},
    faults::FaultKinds,
    naive::{self, Protocol, STORE_EPOCH},
    scenario::{Clients, HotKeyScenario, Network},
    world::HotKeyWorld,
};
use crate::allotment::HolderConfig;

const PROCESSES: usize = 10;
const LIMIT: u64 = 10_000;
const SHAPES: [DemandShape; 5] =
    [DemandShape::Steady, DemandShape::Skewed, DemandShape::OnOff, DemandShape::Herd, DemandShape::Shift];

/// How a row of the table decides.
#[derive(Clone, Copy)]
enum Row {
    Merged,
    Split,
    Allotment,
    Naive(Protocol),
}

const ROWS: [(&str, Row); 7] = [
    ("merged calls", Row::Merged),
    ("even split", Row::Split),
    ("allotment (ours)", Row::Allotment),
    ("prepaid, ends after 1 s", Row::Naive(Protocol::Prepaid { lasts: 1_000_000 })),
    ("prepaid, no end", Row::Naive(Protocol::Prepaid { lasts: u64::MAX })),
    ("Bucket4j delay, as modelled", Row::Naive(Protocol::Copy)),
    ("Gubernator GLOBAL, as modelled", Row::Naive(Protocol::Background)),
];

/// The sums of some runs.
#[derive(Clone, Copy, Debug, Default)]
struct RowTotals {
    /// Permits.
    excess: u64,
    /// Parts of one: the least and the sum over the runs.
    least: f64,
    utilisation: f64,
    runs: u32,
    calls: u64,
    decisions: u64,
}

impl RowTotals {
    fn add(&mut self, excess: u64, utilisation: f64, calls: u64, decisions: u64) {
        self.excess = self.excess.max(excess);
        self.least = if self.runs == 0 { utilisation } else { self.least.min(utilisation) };
        self.utilisation += utilisation;
        self.runs += 1;
        self.calls += calls;
        self.decisions += decisions;
    }

    fn mean(&self) -> f64 {
        self.utilisation / f64::from(self.runs)
    }

    fn decisions_per_call(&self) -> u64 {
        self.decisions.checked_div(self.calls).unwrap_or(0)
    }
}

fn policy(rule: Rule) -> Policy {
    Policy::new("policy", [rule]).unwrap().with_speed(Speed::prepaid())
}

fn demand(shape: DemandShape, seed: u64) -> Vec<DemandBatch> {
    let (processes, length) = (PROCESSES as u64, 4_000_000);
    let load = Load { shape, processes, length, rate: 2 * LIMIT, batch: 20, hold: 1_000_000 };
    load.batches(&mut Random::new(seed * 31 + 7))
}

fn permits(uses: &[Use]) -> f64 {
    let sum: i64 = uses.iter().map(|one| one.permits).sum();
    i32::try_from(sum).map(f64::from).unwrap()
}

/// A process's part of a limit.
fn part(rule: &Rule) -> Policy {
    let (quota, count) = (rule.quota(), PROCESSES as u64);
    let ratekeeper_core::Period::Span(span) = quota.period() else { unreachable!("no rule here has a month") };
    let part = Quota::per_micros(quota.limit() / count, span);
    let part = if quota.names_burst() { part.burst(quota.burst_or_limit() / count) } else { part };
    policy(Rule::new("part", part, rule.algorithm()))
}

fn run(row: Row, rule: &Rule, shape: DemandShape, seed: u64, totals: &mut RowTotals) {
    let (policy, demand) = (policy(rule.clone()), demand(shape, seed));
    let decisions = demand.iter().map(|batch| batch.permits).sum();
    let (uses, calls) = match row {
        Row::Split => (naive::split(&vec![part(rule); PROCESSES], &demand), 0),
        Row::Naive(protocol) => {
            let run = naive::run(protocol, &policy, PROCESSES, &demand, seed);
            (run.uses, run.calls)
        }
        Row::Merged | Row::Allotment => {
            let world = ours(matches!(row, Row::Allotment), &policy, &demand, seed);
            (world.records[0].uses.clone(), world.store_calls)
        }
    };
    let most = permits(&naive::exact(&policy, &demand));
    let over = excess(policy.rules()[0].algorithm(), &uses, &[]);
    totals.add(over, permits(&uses) / most, calls, decisions);
}

/// The world of the simulation without faults.
fn ours(holds: bool, policy: &Policy, demand: &[DemandBatch], seed: u64) -> HotKeyWorld {
    let mut config = HolderConfig::of(policy).unwrap();
    if !holds {
        config.hot_per_second = u64::MAX;
    }
    let network = Network { delay: (100, 800), lost: 0, doubled: 0, late: 0, timeout: 50_000, has_deadlines: true };
    let scenario = HotKeyScenario {
        seed,
        mutant: None,
        shape: DemandShape::Steady,
        kinds: FaultKinds::default(),
        policies: vec![policy.clone()],
        config,
        processes: PROCESSES,
        length: 4_000_000,
        demand: demand.to_vec(),
        faults: Vec::new(),
        network,
        store_epoch: STORE_EPOCH,
        clients: Clients::default(),
    };
    let mut world = HotKeyWorld::new(scenario);
    world.run().unwrap();
    world
}

fn rules() -> [(&'static str, Rule); 6] {
    let two_seconds = Quota::per_micros(2 * LIMIT, Span::from_millis(2_000));
    [
        ("token bucket, burst 1 s", Rule::token_bucket("r", Quota::per_second(LIMIT).burst(LIMIT))),
        ("token bucket, burst 0.1 s", Rule::token_bucket("r", Quota::per_second(LIMIT).burst(LIMIT / 10))),
        ("fixed window 1 s", Rule::fixed_window("r", Quota::per_second(LIMIT))),
        ("sliding log 1 s", Rule::sliding_log("r", Quota::per_second(LIMIT))),
        ("fixed window 2 s", Rule::fixed_window("r", two_seconds)),
        ("sliding log 2 s", Rule::sliding_log("r", two_seconds)),
    ]
}

/// Prints the table; only for `scripts/hot-keys table`, which names the number of seeds.
#[test]
fn table() {
    let seeds = super::number("RATEKEEPER_SIM_TABLE", 0);
    if seeds == 0 {
        return;
    }
    println!("{PROCESSES} processes, limit {LIMIT}/s, demand 2 x, {} shapes x {seeds} seeds, no faults", SHAPES.len());
    println!("worst excess in % of the limit or burst, mean (least) utilisation, calls per decision\n");
    for (name, rule) in rules() {
        println!("{name}");
        let limit = rule.compile().unwrap().limit();
        for (label, row) in ROWS {
            let mut totals = RowTotals::default();
            for shape in SHAPES {
                (0..seeds).for_each(|seed| run(row, &rule, shape, seed, &mut totals));
            }
            let calls = if totals.calls == 0 { "0".into() } else { format!("1/{}", totals.decisions_per_call()) };
            let excess = totals.excess * 1_000 / limit;
            println!(
                "  {label:32} {:5}.{} %   {:.3} ({:.3})   {calls}",
                excess / 10,
                excess % 10,
                totals.mean(),
                totals.least
            );
        }
    }
    println!("\nutilisation of allotments by shape, and calls per decision");
    for (name, rule) in rules() {
        let shapes = SHAPES.map(|shape| {
            let mut totals = RowTotals::default();
            (0..seeds).for_each(|seed| run(Row::Allotment, &rule, shape, seed, &mut totals));
            format!("{shape:?} {:.3} ({:.3}) 1/{}", totals.mean(), totals.least, totals.decisions_per_call())
        });
        println!("  {name:28} {}", shapes.join(", "));
    }
}

/// What a rule has to reach: utilisation under steady and on-off demand and under the worst shape, in parts of a
/// thousand; and decisions per call under steady demand, 2 000 checks per second and process.
const GOALS: [(&str, [u64; 4]); 6] = [
    ("token bucket, burst 1 s", [980, 950, 840, 100]),
    ("token bucket, burst 0.1 s", [980, 950, 840, 60]),
    ("fixed window 1 s", [980, 950, 840, 60]),
    ("sliding log 1 s", [980, 950, 840, 60]),
    ("fixed window 2 s", [980, 950, 840, 100]),
    ("sliding log 2 s", [980, 950, 840, 100]),
];

/// Allotments reach their goals, and no window exceeds its limit.
#[test]
fn goals_are_reached() {
    for ((name, rule), (goal, [steady, on_off, worst, calls])) in rules().into_iter().zip(GOALS) {
        assert_eq!(name, goal);
        let shapes = SHAPES.map(|shape| {
            let mut totals = RowTotals::default();
            (0..2).for_each(|seed| run(Row::Allotment, &rule, shape, seed, &mut totals));
            totals
        });
        let least = shapes.iter().map(|totals| totals.least).fold(1.0, f64::min);
        let reached = [shapes[0].mean(), shapes[2].mean(), least];
        for (reached, goal) in reached.into_iter().zip([steady, on_off, worst]) {
            assert!(reached * 1_000.0 >= goal as f64, "{name}: {shapes:?}");
        }
        assert!(shapes[0].decisions_per_call() >= calls, "{name}: {shapes:?}");
        assert!(shapes.iter().all(|totals| totals.excess == 0), "{name}: {shapes:?}");
    }
}
