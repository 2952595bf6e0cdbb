//! Tests of the simulation, and mutations that it must find.

use ratekeeper_core::{Decision, LeaseId, Quota, Release, Rule, Take, Verb};

use super::*;
use crate::fallback::report_of_charge;

/// Seeds of the main test; the others use a third of them.
const SEEDS: u64 = 2_100;
const STEPS: u64 = 200;

fn run_all(seeds: u64, rules: Rules) -> Result<(), String> {
    for seed in 0..seeds {
        World::new(seed, rules).run(STEPS).map_err(|found| format!("seed {seed} {rules:?}: {found}"))?;
    }
    Ok(())
}

/// The checker requires no more than the core guarantees: with a perfect network it finds nothing.
#[test]
fn a_perfect_network_keeps_every_bound() {
    run_all(SEEDS / 3, Rules { processes: 2, perfect: true, ..Rules::default() }).unwrap();
}

/// One process, whose link fails and recovers and loses requests and replies: all decisions together keep the bound of
/// every rule, exactly.
#[test]
fn one_process_keeps_every_bound() {
    run_all(SEEDS, Rules { processes: 1, ..Rules::default() }).unwrap();
}

/// With several processes, each share that is used may exceed the bound once, with what it refills meanwhile.
#[test]
fn several_processes_exceed_it_by_a_share_each() {
    for processes in [2, 3] {
        run_all(SEEDS / 3, Rules { processes, ..Rules::default() }).unwrap();
    }
}

/// A restart costs at most one share, a loss of the store's data at most one limit.
#[test]
fn restarts_and_losses_cost_what_is_said() {
    run_all(SEEDS / 3, Rules { processes: 1, restarts: true, ..Rules::default() }).unwrap();
    run_all(SEEDS / 3, Rules { processes: 1, losses: true, ..Rules::default() }).unwrap();
    run_all(SEEDS / 3, Rules { processes: 2, restarts: true, losses: true, ..Rules::default() }).unwrap();
}

/// Mutations: without charges, or without the check for races, the checker finds a broken bound.
#[test]
fn the_simulation_notices_what_is_left_out() {
    assert!(run_all(SEEDS, Rules { processes: 1, skips_charges: true, ..Rules::default() }).is_err());
    assert!(run_all(SEEDS, Rules { processes: 1, ignores_races: true, ..Rules::default() }).is_err());
}

fn version(rule: Rule, nodes: u32) -> Arc<Version> {
    let policy = Policy::new("p", [rule]).unwrap();
    Policies::default().install(policy, OnQuotaChange::Keep, "t", Together::ByKey, nodes).current()
}

fn ledger(free_permille: u32) -> Ledger {
    let ledger = Ledger::new(1 << 20, InitialShare { at: NOON, free_permille });
    assert_eq!(ledger.owing(), (0, 0));
    ledger
}

/// Takes single permits until the share refuses; returns their number.
fn exhaust(ledger: &Ledger, version: &Arc<Version>, name: &[u8], now: Timestamp) -> u64 {
    let party = RequestKey { version, name, cost: 1 };
    let mut granted = 0;
    while ledger.take(&[party], &Take::now(), now).is_ok_and(|(decision, _)| decision.is_allowed()) {
        granted += 1;
    }
    granted
}

fn observe_report(ledger: &Ledger, version: &Arc<Version>, decision: &Decision) {
    let party = RequestKey { version, name: NAME, cost: 1 };
    assert!(ledger.observe(&party, &report_of_charge(decision), ledger.mark()));
}

/// The charge that is due, if any. No attempt may have failed before.
fn charge_due(ledger: &Ledger, version: &Arc<Version>, now: Timestamp) -> Option<StoreCharge> {
    match ledger.due(version, NAME, now, Instant::now()) {
        Due::Charge(charge) => Some(charge),
        Due::Nothing => None,
        Due::Later => panic!("an attempt has failed"),
    }
}

const NOON: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// The reply to a charge is lost: the charge is sent again, and charges nothing the second time.
#[test]
fn a_charge_whose_reply_is_lost_is_made_once() {
    let version = version(Rule::token_bucket("r", Quota::per_day(100)), 1);
    let (ledger, mut store) = (ledger(1_000), Store::default());
    assert_eq!(exhaust(&ledger, &version, NAME, NOON), 100);
    let first = charge_due(&ledger, &version, NOON).unwrap();
    let decision = store.charge(&version, 1, &first, NOON);
    assert_eq!(decision.remaining(), 0);
    let again = charge_due(&ledger, &version, NOON + Span::SECOND).unwrap();
    assert_eq!((again.sequence, again.bill.owed[0].permits), (first.sequence, 100));
    let before = store.subject.clone();
    let decision = store.charge(&version, 1, &again, NOON + Span::SECOND);
    assert_eq!(store.subject, before);
    let party = RequestKey { version: &version, name: NAME, cost: 1 };
    assert_eq!(ledger.charged(&party, again.sequence, &report_of_charge(&decision)), 100);
    assert_eq!(ledger.owing(), (0, 0));
    assert!(charge_due(&ledger, &version, NOON + Span::SECOND).is_none());
}

/// Grants made while a charge is open are charged under the next sequence number.
#[test]
fn grants_during_a_charge_are_a_further_debt() {
    let version = version(Rule::fixed_window("r", Quota::per_day(10)), 1);
    let ledger = ledger(1_000);
    let party = RequestKey { version: &version, name: NAME, cost: 1 };
    let take = |cost| ledger.take(&[RequestKey { cost, ..party }], &Take::now(), NOON).unwrap().0.is_allowed();
    assert!(take(4));
    let first = charge_due(&ledger, &version, NOON).unwrap();
    assert!(take(3) && !take(4));
    assert_eq!(charge_due(&ledger, &version, NOON).unwrap().bill.owed[0].permits, 4, "the open charge comes first");
    let mut store = Store::default();
    let decision = store.charge(&version, 1, &first, NOON);
    ledger.charged(&party, first.sequence, &report_of_charge(&decision));
    let second = charge_due(&ledger, &version, NOON).unwrap();
    assert_eq!(second.bill.owed[0].permits, 3);
    assert!(second.sequence > first.sequence);
    assert_eq!(ledger.owing(), (1, 1));
}

/// A debt drains as its grants would have, and is then dropped without a call.
#[test]
fn a_debt_that_has_drained_is_dropped() {
    let version = version(Rule::token_bucket("r", Quota::per_second(10)), 1);
    let ledger = ledger(1_000);
    assert_eq!(exhaust(&ledger, &version, NAME, NOON), 10);
    let half = NOON + Span::from_millis(500);
    assert_eq!(charge_due(&ledger, &version, half).unwrap().bill.owed[0].permits, 5);
    assert!(charge_due(&ledger, &version, NOON + Span::SECOND).is_none());
    assert_eq!(ledger.owing(), (0, 0));
}

/// Until the store is reached the share is empty, or holds the configured part; afterwards it is whole.
#[test]
fn a_share_starts_empty_until_the_store_was_reached() {
    let version = version(Rule::sliding_log("r", Quota::per_day(100)), 1);
    assert_eq!(exhaust(&ledger(0), &version, NAME, NOON), 0);
    assert_eq!(exhaust(&ledger(250), &version, NAME, NOON), 25);
    assert_eq!(exhaust(&ledger(0), &version, NAME, NOON + Span::DAY), 100, "what counted as used has lapsed");
    let met = ledger(0);
    observe_report(&met, &version, &Store::default().decide(&version, 1, &Verb::Peek, NOON));
    assert_eq!(exhaust(&met, &version, NAME, NOON), 100);
}

/// A share starts from the store's last report, scaled down, in whichever order replies arrive.
#[test]
fn a_share_starts_from_the_last_report() {
    for (nodes, left) in [(1, 40), (4, 10)] {
        let version = version(Rule::fixed_window("r", Quota::per_day(100)), nodes);
        let (ledger, mut store) = (ledger(0), Store::default());
        let early = store.decide(&version, 10, &Verb::Take(Take::now()), NOON);
        let late = store.decide(&version, 50, &Verb::Take(Take::now()), NOON + Span::from_micros(1));
        observe_report(&ledger, &version, &late);
        observe_report(&ledger, &version, &early);
        assert_eq!(exhaust(&ledger, &version, NAME, NOON + Span::SECOND), left, "{nodes} nodes");
    }
}

/// A second outage before the charge grants no second share.
#[test]
fn flapping_earns_nothing() {
    let version = version(Rule::token_bucket("r", Quota::per_day(100)), 2);
    let ledger = ledger(1_000);
    assert_eq!(exhaust(&ledger, &version, NAME, NOON), 50);
    // Meanwhile the store answered another call, which had begun before.
    let decision = Store::default().decide(&version, 1, &Verb::Peek, NOON);
    observe_report(&ledger, &version, &decision);
    assert_eq!(exhaust(&ledger, &version, NAME, NOON), 0);
}

/// A lease is released locally because the store's reply was lost, while a take in flight at the store is granted the
/// same permit. The take is decided again locally, so that the permit is not granted twice.
#[test]
fn a_local_release_races_with_a_take_under_way() {
    let version = version(Rule::concurrency("r", 1, Duration::from_secs(3_600)), 1);
    let (ledger, mut store) = (ledger(0), Store::default());
    let party = RequestKey { version: &version, name: NAME, cost: 1 };
    let take = |lease| Verb::Take(Take::now().with_lease(LeaseId(lease)));
    let report = |verb: &Verb, decision: &Decision, mark| {
        let report = StoreReport { verb, lease: decision.lease, ..report_of_charge(decision) };
        ledger.observe(&party, &report, mark)
    };
    let first = store.decide(&version, 1, &take(1), NOON);
    assert!(first.is_allowed() && report(&take(1), &first, ledger.mark()));
    let mark = ledger.mark();
    let release = Verb::Release(Release::Lease(LeaseId(1)));
    let _ = store.decide(&version, 1, &release, NOON);
    let second = store.decide(&version, 1, &take(2), NOON);
    assert!(second.is_allowed() && ledger.hold(&party, &release, NOON).is_some());
    assert!(!report(&take(2), &second, mark), "both may use the one free permit");
}

/// A quota change migrates the debt; a reset clears it.
#[test]
fn a_debt_follows_its_rules() {
    let rule = |limit| Rule::token_bucket("r", Quota::per_day(limit));
    let (old, new) = (version(rule(10), 1), version(rule(20), 1));
    let ledger = ledger(1_000);
    assert_eq!(exhaust(&ledger, &old, NAME, NOON), 10);
    assert_eq!(exhaust(&ledger, &new, NAME, NOON), 10);
    assert_eq!(charge_due(&ledger, &new, NOON).unwrap().bill.owed[0].permits, 20);
    let decision = Store::default().decide(&new, 1, &Verb::Reset, NOON);
    let party = RequestKey { version: &new, name: NAME, cost: 1 };
    assert!(ledger.observe(&party, &StoreReport { verb: &Verb::Reset, ..report_of_charge(&decision) }, ledger.mark()));
    assert_eq!(ledger.owing(), (0, 0));
    assert_eq!(exhaust(&ledger, &new, NAME, NOON), 20);
}

/// Within its byte budget the ledger evicts keys that are in their initial state or have permits left. A grant that
/// cannot be recorded is not made, and an exhausted key is not evicted for another.
#[test]
fn a_full_ledger_refuses_rather_than_forget() {
    let version = version(Rule::fixed_window("r", Quota::per_day(1)), 1);
    let bytes = 32 << 10;
    let ledger = Ledger::new(bytes, InitialShare { at: NOON, free_permille: 1_000 });
    let name = |key: u64| format!("key {key}").into_bytes();
    let granted = (0..1_000).filter(|key| exhaust(&ledger, &version, &name(*key), NOON) == 1).count() as u64;
    assert!(granted > 20 && granted < 1_000, "{granted}");
    assert!(ledger.bytes() <= bytes, "{}", ledger.bytes());
    assert_eq!(ledger.owing(), (granted, granted));
    let party = |key: &[u8]| ledger.take(&[RequestKey { version: &version, name: key, cost: 1 }], &Take::now(), NOON);
    assert_eq!(party(b"another").unwrap_err(), NoRoom);
    let known = party(&name(0));
    assert!(known.is_err() || !known.unwrap().0.is_allowed(), "its permit is used");
}

/// After a failed attempt the next one waits: 25 ms, doubling up to 400 ms. Concurrent failures count once, and a
/// success ends the pause.
#[test]
fn attempts_to_charge_are_spaced() {
    let version = version(Rule::fixed_window("r", Quota::per_day(10)), 1);
    let ledger = ledger(1_000);
    let party = RequestKey { version: &version, name: NAME, cost: 1 };
    let (mut at, mut sequence) = (Instant::now(), 0);
    let _ = ledger.take(&[RequestKey { cost: 3, ..party }], &Take::now(), NOON).unwrap();
    for pause in [25, 50, 100, 200, 400, 400] {
        for _ in 0..8 {
            let Due::Charge(charge) = ledger.due(&version, NAME, NOON, at) else { panic!("a charge is due") };
            sequence = charge.sequence;
        }
        for _ in 0..8 {
            ledger.not_charged(NAME, sequence, false, Some(at));
        }
        at += Duration::from_millis(pause) - Duration::from_micros(1);
        assert!(matches!(ledger.due(&version, NAME, NOON, at), Due::Later), "{pause} ms");
        at += Duration::from_micros(1);
    }
    let Due::Charge(charge) = ledger.due(&version, NAME, NOON, at) else { panic!("a charge is due") };
    assert_eq!(charge.sequence, sequence, "the same charge is retried");
    let _ = ledger.take(&[party], &Take::now(), NOON).unwrap();
    let decision = Store::default().charge(&version, 1, &charge, NOON);
    ledger.charged(&party, sequence, &report_of_charge(&decision));
    assert!(matches!(ledger.due(&version, NAME, NOON, at), Due::Charge(next) if next.sequence > sequence));
}
