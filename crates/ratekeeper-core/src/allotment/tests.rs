use super::*;
use crate::{Quota, Rule, Take};

const START: Timestamp = Timestamp::from_secs(1_700_000_000);

struct Fixture {
    policy: Policy,
    key: AllottedKey,
    calls: u64,
}

impl Fixture {
    /// One permit a second.
    fn bucket(burst: u64) -> Self {
        let policy = Policy::new("p", [Rule::token_bucket("r", Quota::per_second(1).burst(burst))]).unwrap();
        let key = AllottedKey::new(policy.fresh());
        Self { policy, key, calls: 0 }
    }

    /// The call of the only holder.
    fn call(&mut self, used: u64, keep: u64, want: u64, now: Timestamp) -> AllotmentReply {
        self.calls += 1;
        let (end, hold) =
            (self.key.allotments.first().map_or(Timestamp::EPOCH, |own| own.end), Span::from_millis(10_000));
        let call =
            AllotmentCall { id: 1, seq: self.calls, used, acknowledged: used, keep, used_by: now, end, want, hold };
        self.policy.allot(&mut self.key, &call, [], now).reply.unwrap()
    }

    /// Grants until the holder has this many permits.
    fn grant(&mut self, permits: u64) {
        for _ in 0..64 {
            let held = self.key.held().permits;
            self.call(0, held, permits - held, START);
        }
        assert_eq!(self.key.held().permits, permits);
    }

    fn verb(&mut self, cost: u64, verb: Verb, now: Timestamp) -> Decision {
        self.policy.decide_allotted(&mut self.key, cost, &verb, now).decision
    }

    /// A take that accepts any wait; how long it waits.
    fn reserve(&mut self, now: Timestamp) -> u64 {
        let decision = self.verb(1, Verb::Take(Take::within(Span::MINUTE)), now);
        assert!(decision.is_allowed());
        decision.verdict.wait().as_micros() / 1_000_000
    }
}

/// Capacity 10 with 8 held and 1 used: three reservations, of which the first is cancelled. The third still depends on
/// the time that the first has waited for, so the next one goes after it.
#[test]
fn a_reservation_that_is_not_the_latest_is_not_returned() {
    let mut fixture = Fixture::bucket(10);
    fixture.grant(8);
    assert!(fixture.verb(2, Verb::Take(Take::now()), START).is_allowed());
    assert_eq!([fixture.reserve(START), fixture.reserve(START), fixture.reserve(START)], [1, 2, 3]);

    let _ = fixture.verb(1, Verb::Undo { at: START + Span::SECOND, lease: None }, START);
    assert_eq!(fixture.reserve(START), 4);
    let last = START + Span::from_millis(4_000);
    let _ = fixture.verb(1, Verb::Undo { at: last, lease: None }, START);
    assert_eq!(fixture.reserve(START), 4);
}

/// The record of an allotment that has ended is kept while a reservation is outstanding; what it held is charged once.
#[test]
fn an_ended_allotment_is_known_while_a_reservation_is_outstanding() {
    let mut fixture = Fixture::bucket(20);
    fixture.grant(4);
    assert!(fixture.verb(16, Verb::Take(Take::now()), START).is_allowed());
    for wait in 1..=12 {
        assert_eq!(fixture.reserve(START), wait);
    }
    let after_end = START + Span::from_millis(11_000);
    let _ = fixture.verb(0, Verb::Peek, after_end);
    let reply = fixture.call(4, 0, 0, after_end);
    assert_eq!((reply.keep, fixture.key.allotments.len()), (0, 1));
    // 16 + 12 taken and 4 held, of which 11 have drained.
    let bucket = fixture.policy.rules()[0].algorithm().look(&fixture.key.state.states[0], after_end);
    assert_eq!(bucket.reset_at, after_end + Span::from_millis(21_000));

    let after_all = START + Span::from_millis(22_000);
    let _ = fixture.verb(1, Verb::Penalize, after_all);
    assert!(fixture.key.allotments.is_empty());
}

/// A refund has emptied the bucket after the use that a report names. The report does not drain over that time again.
#[test]
fn a_report_does_not_drain_twice() {
    let mut fixture = Fixture::bucket(10);
    fixture.grant(3);
    assert!(fixture.verb(7, Verb::Take(Take::now()), START).is_allowed());
    let later = START + Span::from_millis(4_000);
    let _ = fixture.verb(3, Verb::Refund { at: None }, later);
    // Used at the start, and reported now.
    let call = AllotmentCall {
        id: 1,
        seq: 1_000,
        used: 3,
        acknowledged: 0,
        keep: 0,
        used_by: START,
        end: START,
        want: 0,
        hold: Span::SECOND,
    };
    let reply = fixture.policy.allot(&mut fixture.key, &call, [], later).reply.unwrap();
    assert_eq!(reply.status.remaining(), 7);
}
