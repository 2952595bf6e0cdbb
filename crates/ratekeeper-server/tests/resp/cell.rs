//! Comparison with redis-cell in a real server: the same random calls at the same times.
//!
//! Both clocks are frozen between steps, so that no call falls on two sides of a boundary. The module is version 0.2.2,
//! the newest in the registry, which rounds seconds down; later versions and ratekeeper round up. The exact durations
//! are therefore computed here with the module's arithmetic, in nanoseconds, and compared with both roundings.

use std::collections::HashMap;

use ratekeeper_core::{Span, Timestamp};
use ratekeeper_testkit::{
    random::Random,
    servers::{Binary, Part, RedisServer, Reply, require},
};

use crate::support::{START, Server, array};

/// Arguments of `CL.THROTTLE`.
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

/// The module's arithmetic, which yields exact durations.
#[derive(Default)]
struct Meant {
    tats: HashMap<String, i64>,
}

impl Meant {
    /// Nanoseconds until the key is back in its initial state; 0 if it is.
    fn rests_in(&self, key: &str, now: i64) -> i64 {
        self.tats.get(key).map_or(0, |tat| (tat - now).max(0))
    }

    /// Makes a call. Returns `retry_after` and `reset_after`.
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
    now: Timestamp,
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
        pair.theirs.clock().stop_at(START);
        pair
    }

    fn advance(&mut self, ticks: u64) {
        self.now = self.now + Span::from_micros(ticks * TICK.as_micros());
        self.ours.clock.set(self.now);
        self.theirs.clock().stop_at(self.now);
    }

    /// The replies of both to one call.
    fn ask(&self, call: Call) -> (Vec<i64>, Vec<i64>) {
        let words = call.words("key");
        let theirs = match self.theirs.command(&words) {
            Reply::Array(items) => items.iter().map(Reply::integer).collect(),
            other => panic!("redis-cell answered {other:?} to {words:?}"),
        };
        let mut client = self.ours.client();
        client.send(array(&words));
        (client.read_integers().to_vec(), theirs)
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
            // The module's server expires keys with a resolution of a millisecond and reads its clock as often. No call
            // is made shortly before.
            while (1..5_000_000).contains(&meant.rests_in(&key, nanos(self.now))) {
                self.advance(1);
            }
            if !changes && random.one_in(12) {
                let words = ["DEL", &key];
                let theirs = self.theirs.command(&words.map(str::to_owned)).integer();
                client.exchange(&words, format!(":{theirs}\r\n"));
                let was_kept = meant.rests_in(&key, nanos(self.now)) > 0;
                assert_eq!(theirs, i64::from(was_kept), "call {index}, DEL {key} at {}", self.now.as_micros());
                meant.tats.remove(&key);
                deleted += theirs;
            }
            let words = call.words(&key);
            let theirs: Vec<i64> = match self.theirs.command(&words) {
                Reply::Array(items) => items.iter().map(Reply::integer).collect(),
                other => panic!("redis-cell answered {other:?} to {words:?}"),
            };
            client.send(array(&words));
            let ours = client.read_integers();
            let (retry_after, reset_after) = meant.ask(&key, call, nanos(self.now));
            let context =
                format!("call {index}, {words:?} at {}: ours {ours:?}, theirs {theirs:?}", self.now.as_micros());
            let down = |span: i64| span / SECOND;
            let up = |span: i64| u64::try_from(span).unwrap().div_ceil(SECOND.unsigned_abs()).cast_signed();
            assert_eq!(ours[..3], theirs[..3], "{context}");
            assert_eq!(theirs[3..], [retry_after.map_or(-1, down), down(reset_after)], "{context}");
            assert_eq!(ours[3..], [retry_after.map_or(-1, up), up(reset_after)], "{context}");
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

/// The state of a key is one instant, independent of the numbers of a call.
#[test]
fn a_key_asked_with_changing_numbers_gets_the_same_answers_too() {
    Pair::start().run(0xCE12, 500, true);
}

/// A change of numbers rounds the replenishment time up, by less than a microsecond; redis-cell rounds a permit's time
/// down, to a nanosecond. On a frozen clock `remaining` may therefore be one lower here, but not a microsecond later.
#[test]
fn a_change_of_numbers_rounds_up_by_less_than_a_microsecond() {
    let mut pair = Pair::start();
    let sevenths = Call { max_burst: 20, count: 7, period: 1, quantity: 1 };
    let seconds = Call { count: 1, ..sevenths };
    // 1/7 s, 1 s and 1/7 s: the second call has no fractions of a microsecond.
    let replies = [sevenths, seconds, sevenths].map(|call| pair.ask(call));
    let remaining = replies.map(|(ours, theirs)| (ours[2], theirs[2]));
    assert_eq!(remaining, [(20, 20), (19, 19), (11, 12)]);

    let peek = Call { quantity: 0, ..sevenths };
    pair.ours.clock.set(pair.now + Span::from_micros(1));
    assert_eq!(pair.ask(peek).0[2], 12);
    pair.advance(1);
    let (ours, theirs) = pair.ask(peek);
    assert_eq!(ours[..3], theirs[..3]);
}

fn nanos(now: Timestamp) -> i64 {
    i64::try_from(now.as_micros() * 1_000).unwrap()
}

/// A 64th of a second, which binary fractions represent exactly, so that no clock rounds it.
const TICK: Span = Span::from_micros(15_625);
const SECOND: i64 = 1_000_000_000;
