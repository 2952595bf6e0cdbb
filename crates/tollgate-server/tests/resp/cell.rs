//! redis-cell itself, loaded into a real server, beside ours: the same random calls at the same moments.
//!
//! Both live by clocks that stand still between steps, so that no call can fall on two sides of a boundary. The module
//! is 0.2.2, the newest in the registry, which cuts seconds off where later ones (and we) round up. So the durations it
//! means are worked out here by its own arithmetic, in nanoseconds: it must tell them rounded down and we rounded up.

use std::collections::HashMap;

use tollgate_core::Micros;
use tollgate_testkit::{
    random::Random,
    servers::{Binary, Part, RedisServer, Reply, require},
};

use crate::support::{START, Server, array};

/// What `CL.THROTTLE` is called with.
#[derive(Clone, Copy, Debug)]
struct Call {
    max_burst: u64,
    count: u64,
    period: u64,
    quantity: u64,
}

impl Call {
    fn words(&self, key: &str) -> Vec<String> {
        let Self { max_burst, count, period, quantity } = *self;
        let mut words = vec!["CL.THROTTLE".to_owned(), key.to_owned()];
        words.extend([max_burst, count, period, quantity].map(|number| number.to_string()));
        words
    }
}

/// The module's arithmetic, for the durations it means.
#[derive(Default)]
struct Meant {
    tats: HashMap<String, i64>,
}

impl Meant {
    /// Nanoseconds until the key is as good as new; 0 if it is.
    fn rests_in(&self, key: &str, now: i64) -> i64 {
        self.tats.get(key).map_or(0, |tat| (tat - now).max(0))
    }

    /// `retry_after` and `reset_after`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "as the module does")]
    fn ask(&mut self, key: &str, call: Call, now: i64) -> (Option<i64>, i64) {
        let [max_burst, count, period, quantity] =
            [call.max_burst, call.count, call.period, call.quantity].map(|number| i64::try_from(number).unwrap());
        let interval = ((period * 1_000_000_000) as f64 / count as f64) as i64;
        let (tolerance, increment) = (interval * (max_burst + 1), interval * quantity);
        let tat = now + self.rests_in(key, now);
        let over = tat + increment - tolerance - now;
        if over > 0 {
            return ((increment <= tolerance).then_some(over), tat - now);
        }
        self.tats.insert(key.to_owned(), tat + increment);
        (None, tat + increment - now)
    }
}

struct Pair {
    ours: Server,
    theirs: RedisServer,
    now: Micros,
}

impl Pair {
    fn start() -> Self {
        let module = require(Part::RedisCell);
        let theirs = RedisServer::with()
            .binary(Binary::Valkey)
            .config("loadmodule", module.to_str().unwrap())
            .fake_clock()
            .start();
        let pair = Self { ours: Server::start(), theirs, now: START };
        pair.theirs.clock().stand_still_at(START);
        pair
    }

    fn advance(&mut self, ticks: u64) {
        self.now = self.now + Micros(ticks * TICK.0);
        self.ours.clock.set(self.now);
        self.theirs.clock().stand_still_at(self.now);
    }

    fn run(&mut self, seed: u64, calls: usize, changes: bool) {
        let mut random = Random::new(seed);
        let mut client = self.ours.client();
        let mut meant = Meant::default();
        let mut usual: HashMap<String, Call> = HashMap::new();
        let (mut limited, mut deleted) = (0, 0);
        for index in 0..calls {
            let key = format!("{seed}:{}", random.below(6));
            let mut call = *usual.entry(key.clone()).or_insert_with(|| numbers(&mut random));
            if changes && random.one_in(3) {
                call = numbers(&mut random);
            }
            call.quantity = match random.below(10) {
                0 => 0,
                1 => call.max_burst,
                2 => call.max_burst + 1,
                3 => call.max_burst + 2,
                4 | 5 => random.between(1, 3),
                _ => 1,
            };
            if random.one_in(3) {
                let ticks = if random.one_in(4) { random.below(64 * 20) } else { random.below(20) };
                self.advance(ticks);
            }
            // A key forgets itself at a millisecond, not a microsecond, and the server it lives in looks at the clock that
            // often; so nobody asks shortly before.
            while (1..5_000_000).contains(&meant.rests_in(&key, nanos(self.now))) {
                self.advance(1);
            }
            if !changes && random.one_in(12) {
                let words = ["DEL", &key];
                let theirs = self.theirs.command(&words.map(str::to_owned)).integer();
                client.asks(&words, format!(":{theirs}\r\n"));
                let was_kept = meant.rests_in(&key, nanos(self.now)) > 0;
                assert_eq!(theirs, i64::from(was_kept), "call {index}, DEL {key} at {}", self.now.0);
                meant.tats.remove(&key);
                deleted += theirs;
            }
            let words = call.words(&key);
            let theirs: Vec<i64> = match self.theirs.command(&words) {
                Reply::Array(items) => items.iter().map(Reply::integer).collect(),
                other => panic!("redis-cell answered {other:?} to {words:?}"),
            };
            client.send(array(&words));
            let ours = client.hears_integers();
            let (retry_after, reset_after) = meant.ask(&key, call, nanos(self.now));
            let told = format!("call {index}, {words:?} at {}: ours {ours:?}, theirs {theirs:?}", self.now.0);
            let down = |span: i64| span / SECOND;
            let up = |span: i64| u64::try_from(span).unwrap().div_ceil(SECOND.unsigned_abs()).cast_signed();
            assert_eq!(ours[..3], theirs[..3], "{told}");
            assert_eq!(theirs[3..], [retry_after.map_or(-1, down), down(reset_after)], "{told}");
            assert_eq!(ours[3..], [retry_after.map_or(-1, up), up(reset_after)], "{told}");
            limited += usize::from(ours[0] == 1);
        }
        assert!(changes || deleted > 5, "{deleted} keys were deleted: that shows little");
        assert!(
            limited > calls / 10 && limited < calls * 9 / 10,
            "{limited} of {calls} were limited: that shows little"
        );
    }
}

fn numbers(random: &mut Random) -> Call {
    let (count, period) = random.pick(&[
        (1, 1),
        (2, 1),
        (3, 1),
        (5, 2),
        (7, 1),
        (10, 1),
        (50, 1),
        (30, 60),
        (100, 60),
        (7, 60),
        (1, 60),
        (1_000, 3_600),
    ]);
    Call { max_burst: random.pick(&[0, 1, 2, 3, 4, 9, 15, 20]), count, period, quantity: 1 }
}

#[test]
fn the_same_calls_get_the_same_answers() {
    Pair::start().run(0xCE11, 500, false);
}

/// What is kept of a key is one instant, whatever numbers it is asked about with.
#[test]
fn a_key_asked_with_changing_numbers_gets_the_same_answers_too() {
    Pair::start().run(0xCE12, 500, true);
}

fn nanos(micros: Micros) -> i64 {
    i64::try_from(micros.0 * 1_000).unwrap()
}

/// A 64th of a second: in binary exactly what it is in decimal, so that no clock rounds it.
const TICK: Micros = Micros(15_625);
const SECOND: i64 = 1_000_000_000;
