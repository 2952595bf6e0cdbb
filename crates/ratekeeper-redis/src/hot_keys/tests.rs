use std::time::Duration;

use ratekeeper_core::{OnQuotaChange, Policy, Quota, Rule, Span, Take};

use super::*;
use crate::{key::Together, policies::Policies};

/// Requests are numbered; number 0 is the one that is sent at once.
struct Fixture {
    keys: HotKeys<usize, ()>,
    name: Arc<[u8]>,
    versions: [Arc<Version>; 2],
    start: Instant,
    arrived: usize,
}

impl Fixture {
    fn new(most_waiting: usize) -> Self {
        let policies = Policies::default();
        let version = |limit| {
            let policy = Policy::new("policy", [Rule::token_bucket("rule", Quota::per_second(limit))]).unwrap();
            policies.install(policy, OnQuotaChange::Keep, "prefix", Together::default(), 1).current()
        };
        let (keys, name) = (HotKeys::new(most_waiting), Arc::from(b"name".as_slice()));
        Self { keys, name, versions: [version(1), version(2)], start: Instant::now(), arrived: 0 }
    }

    fn arrive(&mut self, version: usize, cost: u64, verb: Verb) -> Arrival {
        let number = self.arrived;
        self.arrived += 1;
        let version = &self.versions[version];
        let deadline = self.start + Duration::from_millis(number as u64);
        self.keys.arrive(&self.name, version, || NewRequest { cost, verb, deadline, reply: number }, || ())
    }

    fn takes(&mut self, count: usize) {
        for _ in 0..count {
            let arrival = self.arrive(0, 1, Verb::Take(Take::now()));
            assert!(matches!(arrival, Arrival::Queued | Arrival::QueuedFirst { turn: 0 }));
        }
    }

    /// Numbers of the requests that leave, of those that have expired, and the number of runs (0 for barriers).
    fn next(&self, expired_ms: Option<u64>) -> Option<(Vec<usize>, Vec<usize>, usize)> {
        let expired_at = expired_ms.map(|millis| self.start + Duration::from_millis(millis));
        let Departure { expired, sent } = self.keys.next(&self.name, 0, expired_at, |number| *number != DROPPED)?;
        let numbers = |requests: &[WaitingRequest<usize>]| requests.iter().map(|request| request.reply).collect();
        Some(match sent {
            Batch::Merged(requests, runs) => (numbers(&requests), numbers(&expired), runs.len()),
            Batch::Barriers(requests) => (numbers(&requests), numbers(&expired), 0),
        })
    }
}

/// The request that nothing awaits.
const DROPPED: usize = 3;

fn take() -> Verb {
    Verb::Take(Take::now())
}

#[test]
fn the_first_request_is_sent_and_the_others_leave_together() {
    let mut fixture = Fixture::new(10);
    assert!(matches!(fixture.arrive(0, 1, take()), Arrival::Sent { turn: 0 }));
    assert!(matches!(fixture.arrive(0, 1, take()), Arrival::QueuedFirst { turn: 0 }));
    assert!(matches!(fixture.arrive(0, 1, take()), Arrival::Queued));
    assert_eq!(fixture.keys.end_turn(&fixture.name, 0), Some(()), "a task waits");
    assert_eq!(fixture.next(None), Some((vec![1, 2], vec![], 1)));
    assert!(matches!(fixture.arrive(0, 1, take()), Arrival::Queued), "the merged call is in flight");
    assert_eq!(fixture.next(None), None, "number 3 is not awaited, so the key is not hot any more");
    for turn in [1, 2] {
        assert!(matches!(fixture.arrive(0, 1, take()), Arrival::Sent { turn: it } if it == turn));
        assert_eq!(fixture.keys.end_turn(&fixture.name, turn), None, "nothing waits");
    }
}

/// A caller that does not poll its future any more ends its turn late, or never.
#[test]
fn a_late_caller_ends_no_turn_but_its_own() {
    let mut fixture = Fixture::new(10);
    fixture.arrive(0, 1, take());
    fixture.takes(2);
    fixture.keys.take_over(&fixture.name, 0);
    assert_eq!(fixture.next(None), Some((vec![1, 2], vec![], 1)));
    assert_eq!(fixture.keys.end_turn(&fixture.name, 0), None);
    fixture.arrived = 4;
    fixture.takes(1);
    assert_eq!(fixture.next(None), Some((vec![4], vec![], 1)), "the task still sends");
    assert_eq!(fixture.next(None), None);
    assert!(matches!(fixture.arrive(0, 1, take()), Arrival::Sent { turn: 1 }));
    fixture.keys.forget(&fixture.name, 0);
    assert_eq!(fixture.keys.end_turn(&fixture.name, 0), None);
    assert!(matches!(fixture.arrive(0, 1, take()), Arrival::QueuedFirst { turn: 1 }));
}

#[test]
fn barriers_and_new_rules_end_a_call() {
    let mut fixture = Fixture::new(20);
    fixture.arrive(0, 1, take());
    for (version, cost, verb) in [
        (0, 1, take()),
        (0, 2, Verb::Peek),
        (0, 1, take()), // dropped
        (0, 2, Verb::Take(Take::within(Span::SECOND))),
        (0, 1, Verb::Reset),
        (0, 1, Verb::Penalize),
        (0, 1, take()),
        (1, 1, take()),
        (1, 0, take()),
    ] {
        assert!(!matches!(fixture.arrive(version, cost, verb), Arrival::Sent { .. } | Arrival::Full));
    }
    assert_eq!(fixture.next(None), Some((vec![1, 2, 4], vec![], 2)), "a peek is in no run");
    assert_eq!(fixture.next(None), Some((vec![5, 6], vec![], 0)));
    assert_eq!(fixture.next(None), Some((vec![7], vec![], 1)));
    assert_eq!(fixture.next(None), Some((vec![8, 9], vec![], 1)));
    assert_eq!(fixture.next(None), None);
}

#[test]
fn a_call_has_a_bounded_number_of_requests_and_runs() {
    let mut fixture = Fixture::new(5_000);
    fixture.arrive(0, 1, take());
    fixture.arrived = 10;
    fixture.takes(MAX_REQUESTS + 5);
    let (sent, _, runs) = fixture.next(None).unwrap();
    assert_eq!((sent.len(), runs), (MAX_REQUESTS, 1));
    for cost in 2..2 * MAX_RUNS as u64 {
        fixture.arrive(0, cost, take());
    }
    let (sent, _, runs) = fixture.next(None).unwrap();
    assert_eq!((sent.len(), runs), (5 + MAX_RUNS - 1, MAX_RUNS));
}

#[test]
fn expired_requests_are_not_sent_and_others_go_first_if_they_are_put_back() {
    let mut fixture = Fixture::new(10);
    fixture.arrive(0, 1, take());
    fixture.takes(2);
    fixture.arrived = 4;
    fixture.takes(2);
    let expired_at = Some(fixture.start + Duration::from_millis(2));
    let Departure { expired, sent } = fixture.keys.next(&fixture.name, 0, expired_at, |_| true).unwrap();
    assert_eq!(expired.iter().map(|request| request.reply).collect::<Vec<_>>(), [1, 2]);
    let Batch::Merged(requests, _) = sent else { panic!("takes are merged") };
    fixture.takes(1);
    fixture.keys.put_back(&fixture.name, 0, requests);
    assert_eq!(fixture.next(None), Some((vec![4, 5, 6], vec![], 1)));
}

#[test]
fn the_number_of_waiting_requests_is_bounded() {
    let mut fixture = Fixture::new(3);
    fixture.arrive(0, 1, take());
    fixture.takes(3);
    assert!(matches!(fixture.arrive(0, 1, take()), Arrival::Full));
    let _ = fixture.next(None).unwrap();
    fixture.takes(3);
    assert!(matches!(fixture.arrive(0, 1, take()), Arrival::Full));
    fixture.keys.forget(&fixture.name, 0);
    assert!(matches!(fixture.arrive(0, 1, take()), Arrival::Sent { turn: 1 }));
    for _ in 0..3 {
        assert!(!matches!(fixture.arrive(0, 1, take()), Arrival::Full));
    }
}
