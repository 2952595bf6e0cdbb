use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    thread,
};

use ratekeeper_core::{
    Policy, Quota, Rule,
    store_api::{AllotmentCall, AllotmentReply, AllottedKey},
};
use ratekeeper_testkit::random::Random;

use super::{super::Action, *};

const START: Timestamp = Timestamp::from_secs(1_700_000_000);
const CONFIG: HolderConfig = HolderConfig {
    turn: Span::from_millis(100),
    hold: Span::from_millis(1_000),
    remember: Span::from_millis(50),
    hot_per_second: 10,
    largest_cost: 25,
};
const EPOCH: LocalTime = LocalTime(1_000_000);

/// A holder that is shared, one that is not, and the store of both. They differ in the time of the last use only, which the
/// shared one may report later.
struct Pair {
    policy: Policy,
    key: AllottedKey,
    shared: SharedHolder<()>,
    alone: Holder,
    now: LocalTime,
}

impl Pair {
    fn new(rule: Rule) -> Self {
        let policy = Policy::new("p", [rule]).unwrap();
        let key = AllottedKey::new(policy.fresh());
        let shared = SharedHolder::new(Holder::new(7, EPOCH), CONFIG, 1, ());
        Self { policy, key, shared, alone: Holder::new(7, EPOCH), now: EPOCH }
    }

    fn lock(&self) -> HolderGuard<'_, ()> {
        self.shared.lock(|| self.now)
    }

    /// Returns whether it was answered without the lock.
    fn take(&mut self, cost: u64) -> bool {
        let alone = self.alone.take(cost, self.now, &CONFIG);
        let open = self.shared.take_open(cost, false, 1, self.now);
        match (&open, alone) {
            (Some(decision), Served::Granted { refill: false }) => {
                assert!(decision.is_allowed());
                assert_eq!(decision.source, Source::Allotment);
            }
            (Some(decision), Served::Denied(denial)) => {
                let retry_after = denial.free_at.since(self.now).max(Span::MICROSECOND);
                assert_eq!(decision.verdict, Verdict::Deny { retry_after });
                assert_eq!(decision.source, Source::CachedDenial);
            }
            (None, _) => assert_eq!(self.lock().take(cost), alone),
            other => panic!("{other:?}"),
        }
        open.is_some()
    }

    fn call(&mut self, largest: u64, returns_all: bool, want: Option<u64>) -> AllotmentCall {
        let mut guard = self.lock();
        guard.recent = RecentUses::default();
        let mut call = guard.holder.call(largest, returns_all, self.now, &CONFIG);
        drop(guard);
        let alone = self.alone.call(largest, returns_all, self.now, &CONFIG);
        assert!(call.used_by >= alone.used_by, "{call:?} {alone:?}");
        assert_eq!(AllotmentCall { used_by: call.used_by, ..alone }, call);
        call.want = want.unwrap_or(call.want);
        call
    }

    fn reply(&mut self, call: &AllotmentCall, reply: &AllotmentReply) {
        let mut guard = self.lock();
        guard.holder.reply(call.seq, reply, None, self.now, &CONFIG);
        guard.note(&reply.status);
        drop(guard);
        self.alone.reply(call.seq, reply, None, self.now, &CONFIG);
    }

    fn store_time(&self) -> Timestamp {
        START + self.now.since(EPOCH)
    }
}

/// Whatever happens, a shared holder grants, denies and counts as the holder behind it would alone.
#[test]
fn answers_are_those_of_the_holder() {
    let mut answered_open = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let quota = Quota::per_second(random.between(20, 2_000));
        let rule = if random.one_in(2) { Rule::token_bucket("r", quota) } else { Rule::sliding_log("r", quota) };
        let mut pair = Pair::new(rule);
        let mut in_flight = None;
        for _ in 0..600 {
            pair.now = pair.now + Span::from_micros(random.pick(&[1, 10, 500, 3_000, 30_000, 200_000]));
            let cost = if random.one_in(4) { random.below(30) } else { 1 };
            match random.below(24) {
                0 if in_flight.is_none() => {
                    let (returns_all, want) = (random.one_in(6), random.one_in(2).then(|| random.between(1, 300)));
                    in_flight = Some(pair.call(cost, returns_all, want));
                }
                1..=2 => {
                    if let Some(call) = in_flight.take() {
                        let at = pair.store_time();
                        match pair.policy.allot(&mut pair.key, &call, [], at).reply {
                            Some(reply) => pair.reply(&call, &reply),
                            None => panic!("calls are in order"),
                        }
                    }
                }
                3 => {
                    let action = pair.lock().holder.tick(pair.now, &CONFIG);
                    let alone = pair.alone.tick(pair.now, &CONFIG);
                    // The shared one may find out later that it is idle.
                    assert!(action == alone || matches!(alone, Action::Return | Action::Idle), "{action:?} {alone:?}");
                }
                4 => {
                    let given_back = pair.lock().holder.give_back(cost, pair.now);
                    assert_eq!(given_back, pair.alone.give_back(cost, pair.now));
                }
                5 if random.one_in(8) => {
                    pair.lock().holder.recall();
                    pair.alone.recall();
                }
                6 if random.one_in(8) => {
                    pair.lock().holder.forget();
                    pair.alone.forget();
                }
                _ => answered_open += u64::from(pair.take(cost)),
            }
            if random.one_in(4) {
                let guard = pair.lock();
                assert_eq!((guard.holder.held(), guard.holder.counts()), (pair.alone.held(), pair.alone.counts()));
            }
        }
    }
    assert!(answered_open > 10_000, "{answered_open} takes without the lock");
}

fn granted(rule: Rule, permits: u64) -> Pair {
    let mut pair = Pair::new(rule);
    let call = pair.call(0, false, Some(permits));
    let reply = pair.policy.allot(&mut pair.key, &call, [], START).reply.unwrap();
    pair.reply(&call, &reply);
    pair
}

/// The numbers of a decision are the same with and without the lock.
#[test]
fn numbers_of_an_open_take() {
    let pair = granted(Rule::token_bucket("r", Quota::per_second(1_000)), 100);
    let now = pair.now + Span::from_millis(2);
    let open = pair.shared.take_open(1, false, 1, now).unwrap();
    let locked = pair.shared.lock(|| now).status();
    assert_eq!(open, locked);
    assert_eq!(pair.shared.take_open(1, false, 2, now), None, "another generation of the policy");
    assert_eq!(pair.shared.take_open(0, false, 1, now), None, "a cost of 0");
}

/// A use without the lock can be returned until it is reported, once.
#[test]
fn an_open_use_is_given_back_before_it_is_reported() {
    let mut pair = granted(Rule::token_bucket("r", Quota::per_second(1_000)), 100);
    let used = pair.shared.take_open(1, false, 1, pair.now).unwrap();
    assert!(pair.lock().give_back(1, used.decided_at));
    assert!(!pair.lock().give_back(1, used.decided_at));
    let used = pair.shared.take_open(1, false, 1, pair.now).unwrap();
    let mut guard = pair.shared.lock(|| pair.now);
    guard.recent = RecentUses::default();
    let call = guard.holder.call(0, false, pair.now, &CONFIG);
    drop(guard);
    assert_eq!(call.used, 1);
    assert!(!pair.lock().give_back(1, used.decided_at));
    pair.now = pair.now + Span::MICROSECOND;
}

/// Threads take permits while the holder is accessed: each permit is used once, and each use is counted.
#[test]
fn threads_use_each_permit_once() {
    let pair = granted(Rule::token_bucket("r", Quota::per_second(1_000_000)), 40_000);
    let held = pair.lock().holder.held();
    assert!(held > 0);
    let used = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for step in 0..20_000_u64 {
                    let cost = 1 + step % 3;
                    let granted = match pair.shared.take_open(cost, false, 1, pair.now) {
                        Some(decision) => decision.is_allowed(),
                        None => matches!(pair.lock().take(cost), Served::Granted { .. }),
                    };
                    used.fetch_add(if granted { cost } else { 0 }, SeqCst);
                }
            });
        }
        scope.spawn(|| (0..2_000).for_each(|_| drop(pair.lock())));
    });
    let guard = pair.lock();
    assert_eq!((guard.holder.counts().used, guard.holder.held()), (used.load(SeqCst), held - used.load(SeqCst)));
}
