//! Scenarios: policies, processes, network, demand and faults of one seed.

use ratekeeper_core::{
    Align, Policy, Quota, Rule, Span, UtcOffset,
    algorithm::{Algorithm, AnyAlgorithm, Schedule},
};
use ratekeeper_testkit::random::Random;

use super::{
    demand::{DemandBatch, DemandShape, Load},
    faults::{Fault, FaultKinds, FaultSizes, faults},
    mutants::Mutant,
};
use crate::allotment::HolderConfig;

/// The algorithm of a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RuleKind {
    Bucket,
    Leaky,
    Stepwise,
    Epoch,
    FirstRequest,
    Calendar,
    Log,
    Counter,
}

impl RuleKind {
    pub(super) const ALL: [Self; 8] = [
        Self::Bucket,
        Self::Leaky,
        Self::Stepwise,
        Self::Epoch,
        Self::FirstRequest,
        Self::Calendar,
        Self::Log,
        Self::Counter,
    ];

    pub(super) fn rule(self, name: &str, limit: u64, per: Span, burst: u64) -> Rule {
        let quota = Quota::per_micros(limit, per);
        match self {
            Self::Bucket => Rule::token_bucket(name, quota.burst(burst)),
            Self::Leaky => Rule::leaky_bucket(name, quota.burst(burst)),
            Self::Stepwise => Rule::token_bucket_stepwise(name, quota.burst(burst)),
            Self::Epoch => Rule::fixed_window(name, quota),
            Self::FirstRequest => Rule::fixed_window_aligned(name, quota, Align::FirstRequest),
            Self::Calendar => {
                let align = Align::Calendar(UtcOffset::UTC);
                // By the length, so that days, weeks and months all occur.
                let quota = match per.as_micros() % 3 {
                    0 => Quota::per_day(limit),
                    1 => Quota::per_week(limit),
                    _ => Quota::per_month(limit),
                };
                Rule::fixed_window_aligned(name, quota, align)
            }
            Self::Log => Rule::sliding_log(name, quota),
            Self::Counter => Rule::sliding_counter(name, quota),
        }
    }
}

/// What a run is restricted to, and the mutant that is switched on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Focus {
    pub(super) mutant: Option<Mutant>,
    /// One rule of one of these kinds; otherwise any rules.
    pub(super) kinds: &'static [RuleKind],
    /// These faults; otherwise any.
    pub(super) faults: Option<FaultKinds>,
    /// Demand at the ends of allotments, greedy holders.
    pub(super) is_hard: bool,
    pub(super) refunds: bool,
    pub(super) waits: bool,
    pub(super) larger_costs: bool,
    /// This demand; otherwise any.
    pub(super) shape: Option<DemandShape>,
    /// This network; otherwise any.
    pub(super) network: Option<Network>,
}

/// One seed.
#[derive(Clone, Debug)]
pub(super) struct HotKeyScenario {
    pub(super) seed: u64,
    pub(super) mutant: Option<Mutant>,
    pub(super) shape: DemandShape,
    pub(super) kinds: FaultKinds,
    /// One policy per key.
    pub(super) policies: Vec<Policy>,
    pub(super) config: HolderConfig,
    pub(super) processes: usize,
    pub(super) length: u64,
    pub(super) demand: Vec<DemandBatch>,
    pub(super) faults: Vec<(u64, Fault)>,
    pub(super) network: Network,
    /// The store's clock at the true time 0.
    pub(super) store_epoch: u64,
    pub(super) clients: Clients,
}

/// Chances are parts of a thousand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    pub(super) delay: (u64, u64),
    pub(super) lost: u64,
    /// A copy of a call or a reply arrives as well, after up to two holds.
    pub(super) doubled: u64,
    /// A call arrives after up to two holds, so that later ones overtake it.
    pub(super) late: u64,
    /// After this time a process does not wait for a reply any more.
    pub(super) timeout: u64,
    /// The store does not carry out calls that arrive after their timeout.
    pub(super) has_deadlines: bool,
}

/// Chances are parts of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clients {
    /// Always ask for the whole limit.
    pub(super) are_greedy: bool,
    /// The other processes ask the store each time.
    pub(super) only_first_holds: bool,
    /// Never report or return without being asked.
    pub(super) are_lazy: bool,
    /// Requests with a cost above 1.
    pub(super) larger_costs: u64,
    pub(super) waits: u64,
    pub(super) refunds: u64,
    pub(super) peeks: u64,
    /// Requests for all keys together.
    pub(super) together: u64,
}

const SECOND: u64 = 1_000_000;
/// 1 January 2024: a Monday, and the first day of a month and a year.
const NEW_YEAR: u64 = 1_704_067_200 * SECOND;

impl HotKeyScenario {
    pub(super) fn new(seed: u64, focus: &Focus) -> Self {
        let mut random = Random::new(seed.wrapping_mul(7_919) + 13);
        let random = &mut random;
        let is_hard = focus.is_hard || (focus.mutant.is_none() && random.one_in(2));
        let per = random.pick(&[SECOND / 10, SECOND / 2, SECOND, SECOND, 2 * SECOND]);
        let limit = (random.pick(&[20, 100, 300, 1_000]) * per / SECOND).max(5);
        let keys = if focus.kinds.is_empty() && random.one_in(6) { 2 } else { 1 };
        let policies: Vec<_> = (0..keys).map(|_| any_policy(random, focus.kinds, limit, per)).collect();
        let least = policies.iter().map(least_limit).min().unwrap_or(limit);
        let config = config(random, &policies, least);
        let hold = config.hold.as_micros();

        let most = if is_hard { 5 } else { 50 };
        let processes = random.pick(&[2_u64, 2, 3, 5, 10, 20, 50]).min(most);
        let length = random.pick(&[2, 3]) * SECOND;
        let rate = (limit * SECOND / per) * random.pick(&[5, 9, 11, 20, 50]) / 10;
        let shape = if is_hard {
            random.pick(&[
                DemandShape::Sniper,
                DemandShape::Sniper,
                DemandShape::Sniper,
                DemandShape::Queue,
                DemandShape::Edge,
                DemandShape::Herd,
            ])
        } else {
            random.pick(&[
                DemandShape::Steady,
                DemandShape::Skewed,
                DemandShape::OnOff,
                DemandShape::Bursty,
                DemandShape::Herd,
                DemandShape::Shift,
                DemandShape::Edge,
                DemandShape::Edge,
                DemandShape::Edge,
            ])
        };
        let shape = focus.shape.unwrap_or(shape);
        let batch = (rate * length / SECOND / 1_500).max(1);
        let demand = Load { shape, processes, length, rate, batch, hold }.batches(random);
        let kinds = focus.faults.unwrap_or_else(|| FaultKinds::random(random));
        let processes = usize::try_from(processes).unwrap();
        let sizes = FaultSizes { processes, keys, length, hold, limit: least };
        let faults = faults(random, kinds, sizes);
        Self {
            seed,
            mutant: focus.mutant,
            shape,
            kinds,
            policies,
            config,
            processes,
            length,
            demand,
            faults,
            network: focus.network.unwrap_or_else(|| network(random, is_hard)),
            store_epoch: NEW_YEAR - random.below(length),
            clients: clients(random, focus, keys, is_hard, shape),
        }
    }
}

impl HotKeyScenario {
    /// The configuration of one process.
    pub(super) fn config_of(&self, process: usize) -> HolderConfig {
        let never = self.clients.only_first_holds && process > 0;
        HolderConfig { hot_per_second: if never { u64::MAX } else { self.config.hot_per_second }, ..self.config }
    }
}

fn network(random: &mut Random, is_hard: bool) -> Network {
    let delays = if is_hard {
        [(50, 300), (100, 1_000), (100, 4_000), (100, 60_000)]
    } else {
        [(50, 300), (100, 2_000), (100, 30_000), (1_000, 120_000)]
    };
    let lost = if is_hard { [0, 0, 0, 20, 100] } else { [0, 0, 10, 100, 300] };
    Network {
        delay: random.pick(&delays),
        lost: random.pick(&lost),
        doubled: random.pick(&[0, 0, 20, 100]),
        late: random.pick(&[0, 0, 20, 100]),
        timeout: random.pick(&[5_000, 50_000, 50_000]),
        has_deadlines: random.one_in(2),
    }
}

fn clients(random: &mut Random, focus: &Focus, keys: u64, is_hard: bool, shape: DemandShape) -> Clients {
    let mut seldom = |chances: &[u64]| if random.one_in(2) { random.pick(chances) } else { 0 };
    let (larger_costs, peeks) = (seldom(&[50, 300, 900]), seldom(&[20]));
    let (waits, refunds) = (seldom(&[10, 100, 400]), seldom(&[20, 100, 400]));
    Clients {
        are_greedy: is_hard || random.below(10) < 4,
        only_first_holds: shape == DemandShape::Queue && (focus.waits || random.one_in(2)),
        are_lazy: random.below(10) < if is_hard { 7 } else { 4 },
        larger_costs: if focus.larger_costs { 900 } else { larger_costs },
        peeks,
        waits: if focus.waits { 700 } else { waits },
        refunds: if focus.refunds { 300 } else { refunds },
        together: if keys > 1 { 200 } else { 0 },
    }
}

fn any_policy(random: &mut Random, kinds: &[RuleKind], limit: u64, per: u64) -> Policy {
    let mut any = |name: &str, limit: u64, per: u64| {
        let burst = random.pick(&[limit / 10, limit / 2, limit, limit, 2 * limit]).max(1);
        let kind = random.pick(if kinds.is_empty() { &RuleKind::ALL } else { kinds });
        kind.rule(name, limit, Span::from_micros(per), burst)
    };
    let mut rules = vec![any("first", limit, per)];
    let second = any("second", (limit * 3 / 2).max(1), 2 * per);
    let shadow = any("shadow", (limit / 2).max(1), per).shadow(true);
    if kinds.is_empty() {
        match random.below(8) {
            0 => rules.push(second),
            1 => rules.extend([second, shadow]),
            2 => rules.insert(0, shadow),
            _ => {}
        }
    }
    Policy::new("policy", rules).unwrap()
}

fn config(random: &mut Random, policies: &[Policy], least: u64) -> HolderConfig {
    let longest = Span::from_millis(random.pick(&[10, 50, 100]));
    let turn = policies.iter().map(|policy| policy.turn(longest)).min().unwrap_or(longest).max(Span::MILLISECOND);
    HolderConfig {
        turn,
        hold: Span::from_micros(turn.as_micros() * random.pick(&[2, 5, 10, 20])),
        remember: Span::from_millis(random.pick(&[0, 10, 50])),
        hot_per_second: random.pick(&[1, 10, 100]),
        largest_cost: random.pick(&[least / 4, least]),
    }
}

/// The least limit of the enforced rules.
pub(super) fn least_limit(policy: &Policy) -> u64 {
    let enforced = policy.rules().iter().filter(|rule| !rule.is_shadow());
    enforced.map(|rule| rule.algorithm().limit()).min().unwrap_or(1)
}

/// The same policy with all limits and bursts changed.
pub(super) fn with_quota(policy: &Policy, percent: u64) -> Policy {
    let changed = |permits: u64| (permits * percent / 100).max(1);
    let rules = policy.rules().iter().map(|ready| {
        let (rule, old) = (ready.rule(), ready.rule().quota());
        let quota = match old.period() {
            ratekeeper_core::Period::Span(span) => Quota::per_micros(changed(old.limit()), span),
            ratekeeper_core::Period::Month => Quota::per_month(changed(old.limit())),
            ratekeeper_core::Period::Year => Quota::per_year(changed(old.limit())),
        };
        let quota = if old.names_burst() { quota.burst(changed(old.burst_or_limit())) } else { quota };
        Rule::new(rule.name(), quota, rule.algorithm()).shadow(rule.is_shadow())
    });
    Policy::new("policy", rules).unwrap()
}

/// Whether a window starts with the first use. Refunds, penalties and resets let it start elsewhere.
pub(super) fn starts_with_use(algorithm: &AnyAlgorithm) -> bool {
    matches!(algorithm, AnyAlgorithm::Window(window) if matches!(window.schedule(), Schedule::FirstRequest(_)))
}
