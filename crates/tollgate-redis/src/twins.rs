//! The scripts against the core: the same random quotas, costs, waits, verbs and times, some of them backwards, and
//! after every step the same decision, the same stored bytes and the same time to live.
//!
//! One test per algorithm, each on a server of its own, with policies that hold that algorithm alone or among others.
//! Many lanes walk side by side so that one round trip carries a step of each. `TOLLGATE_TWIN_STEPS` asks for more
//! steps, `TOLLGATE_TWIN_SEED` replays a walk.

mod lane;

use std::{collections::HashSet, env};

use lane::Lane;
use redis::{Connection, Value};
use tollgate_testkit::{
    random::{Kind, Random},
    servers::RedisServer,
};

/// Lanes that walk side by side.
const LANES: u64 = 64;
/// Steps of a lane before it starts over with other rules.
const STRETCH: u64 = 400;
/// Steps per algorithm in the ordinary run.
const STEPS: u64 = 100_000;

fn number_from(variable: &str, default: u64) -> u64 {
    env::var(variable).ok().and_then(|text| text.replace('_', "").parse().ok()).unwrap_or(default)
}

fn walk(kind: Kind) {
    let server = RedisServer::start();
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let seed = number_from("TOLLGATE_TWIN_SEED", 1);
    let steps = number_from("TOLLGATE_TWIN_STEPS", STEPS);
    let mut seeds = Random::new(seed);
    let mut lanes: Vec<Lane> = Vec::new();
    let mut known = HashSet::new();
    for round in 0..steps.div_ceil(LANES) {
        if round % STRETCH == 0 {
            redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
            lanes = (0..LANES).map(|number| Lane::new(seeds.bits(), kind, number)).collect();
        }
        step(&mut connection, &mut known, &mut lanes);
    }
}

fn step(connection: &mut Connection, known: &mut HashSet<String>, lanes: &mut [Lane]) {
    let mut pipe = redis::pipe();
    let mut asked = Vec::new();
    for lane in lanes.iter_mut() {
        let question = lane.next_question();
        let mut call = redis::cmd("EVALSHA");
        if known.insert(question.script.hash().to_owned()) {
            redis::cmd("SCRIPT").arg("LOAD").arg(question.script.text()).exec(connection).unwrap();
        }
        call.arg(question.script.hash()).arg(question.keys.len()).arg(&question.keys).arg(&question.numbers);
        call.arg(question.now).arg(lane::FAR);
        pipe.add_command(call);
        for key in &question.keys {
            pipe.cmd("GET").arg(key);
            pipe.cmd("PEXPIRETIME").arg(key);
        }
        asked.push(question);
    }
    let mut replies = pipe.query::<Vec<Value>>(connection).unwrap().into_iter();
    for (lane, question) in lanes.iter_mut().zip(asked) {
        let reply = replies.next().unwrap();
        let stored = question.keys.iter().map(|_| (replies.next().unwrap(), replies.next().unwrap())).collect();
        lane.compare(question, reply, stored);
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
    stepwise_buckets_are_twins: Stepwise,
    leaky_buckets_are_twins: Leaky,
    shaped_buckets_are_twins: Shaped,
    windows_from_the_epoch_are_twins: Epoch,
    windows_from_the_first_request_are_twins: FirstRequest,
    calendar_windows_are_twins: Calendar,
    logs_are_twins: Log,
    counters_are_twins: Counter,
    leases_are_twins: Concurrency,
}
