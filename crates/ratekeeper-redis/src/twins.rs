//! Twin tests: scripts and core run the same random quotas, costs, waits, verbs and times, some of them backwards. After
//! every step they must agree in the decision, the stored bytes and the TTL. Some steps are merged calls: a random queue of
//! takes and peeks, which must agree with the same requests one after the other. Under prepaid policies some are calls of
//! holders.
//!
//! One test per algorithm, each on a separate server, with policies of that algorithm alone or among others. Many
//! scenarios run concurrently, so that one round trip has a step of each. `RATEKEEPER_TWIN_STEPS` sets the number of
//! steps, `RATEKEEPER_TWIN_SEED` repeats a run.

mod allotments;
mod generate;
mod queue;
mod scenario;
mod stored;
mod terms;

use std::{collections::HashSet, env};

use ratekeeper_testkit::{
    random::{Kind, Random},
    servers::RedisServer,
};
use redis::{Connection, Value};
use scenario::Scenario;

/// Scenarios that run concurrently.
const SCENARIOS: u64 = 64;
/// Steps of a scenario before it restarts with other rules.
const STEPS_PER_SCENARIO: u64 = 400;
/// Steps per algorithm in the ordinary run.
const STEPS: u64 = 100_000;

fn number_from(variable: &str, default: u64) -> u64 {
    env::var(variable).ok().and_then(|text| text.replace('_', "").parse().ok()).unwrap_or(default)
}

fn walk(kind: Kind) {
    let server = RedisServer::start();
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let seed = number_from("RATEKEEPER_TWIN_SEED", 1);
    let steps = number_from("RATEKEEPER_TWIN_STEPS", STEPS);
    let mut seeds = Random::new(seed);
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut known = HashSet::new();
    for round in 0..steps.div_ceil(SCENARIOS) {
        if round % STEPS_PER_SCENARIO == 0 {
            redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
            scenarios = (0..SCENARIOS).map(|number| Scenario::new(seeds.bits(), kind, number)).collect();
        }
        step(&mut connection, &mut known, &mut scenarios);
    }
}

fn step(connection: &mut Connection, known: &mut HashSet<String>, scenarios: &mut [Scenario]) {
    let mut pipe = redis::pipe();
    let mut asked = Vec::new();
    for scenario in scenarios.iter_mut() {
        let question = scenario.next_question();
        let mut call = redis::cmd("EVALSHA");
        if known.insert(question.script.hash().to_owned()) {
            redis::cmd("SCRIPT").arg("LOAD").arg(question.script.text()).exec(connection).unwrap();
        }
        call.arg(question.script.hash()).arg(question.keys.len()).arg(&question.keys).arg(&question.numbers);
        call.arg(question.now).arg(stored::EXPIRY_BASE);
        pipe.add_command(call);
        for key in &question.keys {
            pipe.cmd("GET").arg(key);
            pipe.cmd("PEXPIRETIME").arg(key);
        }
        asked.push(question);
    }
    let mut replies = pipe.query::<Vec<Value>>(connection).unwrap().into_iter();
    for (scenario, question) in scenarios.iter_mut().zip(asked) {
        let reply = replies.next().unwrap();
        let stored = question.keys.iter().map(|_| (replies.next().unwrap(), replies.next().unwrap())).collect();
        scenario.compare(question, reply, stored);
    }
}

macro_rules! twins {
    ($($name:ident: $kind:ident,)*) => {$(
        #[test]
        fn $name() {
            walk(Kind::$kind);
        }
    )*};
}

twins! {
    token_buckets_are_twins: TokenBucket,
    rounded_buckets_are_twins: Rounded,
    rounded_shaped_buckets_are_twins: RoundedShaped,
    stepwise_buckets_are_twins: Stepwise,
    leaky_buckets_are_twins: Leaky,
    shaped_buckets_are_twins: Shaped,
    windows_from_the_epoch_are_twins: Epoch,
    windows_from_the_first_request_are_twins: FirstRequest,
    calendar_windows_are_twins: Calendar,
    logs_are_twins: Log,
    counters_are_twins: Counter,
    leases_are_twins: Concurrency,
    windows_of_time_zones_are_twins: Local,
}
