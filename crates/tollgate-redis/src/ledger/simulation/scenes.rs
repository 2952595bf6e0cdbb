//! What the simulation claims, and that it would notice.

use tollgate_core::{Quota, Rule};

use super::*;

/// Seeds of the main claim; the others take a third of them.
const SEEDS: u64 = 2_100;
const STEPS: u64 = 200;

fn run_all(seeds: u64, rules: Rules) -> Result<(), String> {
    for seed in 0..seeds {
        World::new(seed, rules).run(STEPS).map_err(|found| format!("seed {seed} {rules:?}: {found}"))?;
    }
    Ok(())
}

/// The checker asks for what the core promises, no more: with a perfect network nothing is found.
#[test]
fn a_perfect_network_keeps_every_bound() {
    run_all(SEEDS / 3, Rules { processes: 2, perfect: true, ..Rules::default() }).unwrap();
}

/// One process, whose link comes and goes and loses requests and replies: all answers together keep the bound of every
/// rule, exactly.
#[test]
fn one_process_keeps_every_bound() {
    run_all(SEEDS, Rules { processes: 1, ..Rules::default() }).unwrap();
}

/// With several, each share that began to be used may be too much, once, with what it refills meanwhile.
#[test]
fn several_processes_exceed_it_by_a_share_each() {
    for processes in [2, 3] {
        run_all(SEEDS / 3, Rules { processes, ..Rules::default() }).unwrap();
    }
}

/// A restart forgets one share, a store without its memory one limit.
#[test]
fn restarts_and_losses_cost_what_is_said() {
    run_all(SEEDS / 3, Rules { processes: 1, restarts: true, ..Rules::default() }).unwrap();
    run_all(SEEDS / 3, Rules { processes: 1, losses: true, ..Rules::default() }).unwrap();
    run_all(SEEDS / 3, Rules { processes: 2, restarts: true, losses: true, ..Rules::default() }).unwrap();
}

/// The checker sees what it should: without the charge, or without the check for races, the bound is broken.
#[test]
fn the_simulation_notices_what_is_left_out() {
    assert!(run_all(SEEDS, Rules { processes: 1, skips_charges: true, ..Rules::default() }).is_err());
    assert!(run_all(SEEDS, Rules { processes: 1, ignores_races: true, ..Rules::default() }).is_err());
}

fn version(rule: Rule, nodes: u32) -> Arc<Version> {
    let policy = Policy::new("p", [rule]).unwrap();
    Policies::default().install(policy, Carry::Keep, "t", Together::ByKey, nodes).current()
}

fn ledger(free_permille: u32) -> Ledger {
    let ledger = Ledger::new(1 << 20, Start { at: NOON, free_permille });
    assert_eq!(ledger.owing(), (0, 0));
    ledger
}

/// As many single permits as the share lets through.
fn exhaust(ledger: &Ledger, version: &Arc<Version>, name: &[u8], now: Micros) -> u64 {
    let party = Party { version, name, times: 1 };
    let mut granted = 0;
    while ledger.take(&[party], &Take::now(1), now).is_ok_and(|(decision, _)| decision.is_allowed()) {
        granted += 1;
    }
    granted
}

fn hear(ledger: &Ledger, version: &Arc<Version>, decision: &Decision) {
    let party = Party { version, name: NAME, times: 1 };
    assert!(ledger.heard(&party, &said_by_charge(decision), ledger.mark()));
}

const NOON: Micros = Micros(1_700_000_000_000_000);

/// The reply to a charge is lost: sent again, it charges nothing.
#[test]
fn a_charge_whose_reply_is_lost_is_made_once() {
    let version = version(Rule::token_bucket("r", Quota::per_day(100)), 1);
    let (ledger, mut store) = (ledger(1_000), Store::default());
    assert_eq!(exhaust(&ledger, &version, NAME, NOON), 100);
    let first = ledger.due(&version, NAME, NOON).unwrap();
    let told = store.charge(&version, 1, &first, NOON);
    assert_eq!(told.remaining(), 0);
    let again = ledger.due(&version, NAME, NOON + Micros::SECOND).unwrap();
    assert_eq!((again.sequence, again.bill.owed[0].permits), (first.sequence, 100));
    let before = store.subject.clone();
    let told = store.charge(&version, 1, &again, NOON + Micros::SECOND);
    assert_eq!(store.subject, before);
    let party = Party { version: &version, name: NAME, times: 1 };
    assert_eq!(ledger.charged(&party, again.sequence, &said_by_charge(&told)), 100);
    assert_eq!(ledger.owing(), (0, 0));
    assert!(ledger.due(&version, NAME, NOON + Micros::SECOND).is_none());
}

/// Grants that were made while a charge is open go under the next id.
#[test]
fn grants_during_a_charge_are_a_further_debt() {
    let version = version(Rule::fixed_window("r", Quota::per_day(10)), 1);
    let ledger = ledger(1_000);
    let party = Party { version: &version, name: NAME, times: 1 };
    let take = |cost| ledger.take(&[party], &Take::now(cost), NOON).unwrap().0.is_allowed();
    assert!(take(4));
    let first = ledger.due(&version, NAME, NOON).unwrap();
    assert!(take(3) && !take(4));
    assert_eq!(ledger.due(&version, NAME, NOON).unwrap().bill.owed[0].permits, 4, "the open charge comes first");
    let mut store = Store::default();
    let told = store.charge(&version, 1, &first, NOON);
    ledger.charged(&party, first.sequence, &said_by_charge(&told));
    let second = ledger.due(&version, NAME, NOON).unwrap();
    assert_eq!(second.bill.owed[0].permits, 3);
    assert!(second.sequence > first.sequence);
    assert_eq!(ledger.owing(), (1, 1));
}

/// A debt drains as the grants would have, and is then dropped without a call.
#[test]
fn a_debt_that_has_drained_is_dropped() {
    let version = version(Rule::token_bucket("r", Quota::per_second(10)), 1);
    let ledger = ledger(1_000);
    assert_eq!(exhaust(&ledger, &version, NAME, NOON), 10);
    let half = NOON + Micros::from_millis(500);
    assert_eq!(ledger.due(&version, NAME, half).unwrap().bill.owed[0].permits, 5);
    assert!(ledger.due(&version, NAME, NOON + Micros::SECOND).is_none());
    assert_eq!(ledger.owing(), (0, 0));
}

/// Before the store was ever reached the share is empty, or holds the part that was asked for; after, it is whole.
#[test]
fn a_share_starts_empty_until_the_store_was_reached() {
    let version = version(Rule::sliding_log("r", Quota::per_day(100)), 1);
    assert_eq!(exhaust(&ledger(0), &version, NAME, NOON), 0);
    assert_eq!(exhaust(&ledger(250), &version, NAME, NOON), 25);
    assert_eq!(exhaust(&ledger(0), &version, NAME, NOON + Micros::DAY), 100, "what counted as used has lapsed");
    let met = ledger(0);
    hear(&met, &version, &Store::default().decide(&version, &Verb::Peek, NOON));
    assert_eq!(exhaust(&met, &version, NAME, NOON), 100);
}

/// A share starts from the store's last word, scaled down, whichever order replies come in.
#[test]
fn a_share_starts_from_the_last_word() {
    for (nodes, left) in [(1, 40), (4, 10)] {
        let version = version(Rule::fixed_window("r", Quota::per_day(100)), nodes);
        let (ledger, mut store) = (ledger(0), Store::default());
        let early = store.decide(&version, &Verb::Take(Take::now(10)), NOON);
        let late = store.decide(&version, &Verb::Take(Take::now(50)), NOON + Micros(1));
        hear(&ledger, &version, &late);
        hear(&ledger, &version, &early);
        assert_eq!(exhaust(&ledger, &version, NAME, NOON + Micros::SECOND), left, "{nodes} nodes");
    }
}

/// A second outage before the charge is no second share.
#[test]
fn flapping_earns_nothing() {
    let version = version(Rule::token_bucket("r", Quota::per_day(100)), 2);
    let ledger = ledger(1_000);
    assert_eq!(exhaust(&ledger, &version, NAME, NOON), 50);
    // The store was seen meanwhile, by another call that had begun before.
    let told = Store::default().decide(&version, &Verb::Peek, NOON);
    hear(&ledger, &version, &told);
    assert_eq!(exhaust(&ledger, &version, NAME, NOON), 0);
}

/// A quota that changes takes the debt along; a reset clears it.
#[test]
fn a_debt_follows_its_rules() {
    let rule = |limit| Rule::token_bucket("r", Quota::per_day(limit));
    let (old, new) = (version(rule(10), 1), version(rule(20), 1));
    let ledger = ledger(1_000);
    assert_eq!(exhaust(&ledger, &old, NAME, NOON), 10);
    assert_eq!(exhaust(&ledger, &new, NAME, NOON), 10);
    assert_eq!(ledger.due(&new, NAME, NOON).unwrap().bill.owed[0].permits, 20);
    let told = Store::default().decide(&new, &Verb::Reset, NOON);
    let party = Party { version: &new, name: NAME, times: 1 };
    assert!(ledger.heard(&party, &Said { verb: &Verb::Reset, ..said_by_charge(&told) }, ledger.mark()));
    assert_eq!(ledger.owing(), (0, 0));
    assert_eq!(exhaust(&ledger, &new, NAME, NOON), 20);
}

/// Within its bytes the ledger forgets keys that are at rest, or have permits left; a grant that cannot be noted is
/// not made, and a key that is used up is not forgotten for another.
#[test]
fn a_full_ledger_refuses_rather_than_forget() {
    let version = version(Rule::fixed_window("r", Quota::per_day(1)), 1);
    let bytes = 32 << 10;
    let ledger = Ledger::new(bytes, Start { at: NOON, free_permille: 1_000 });
    let name = |key: u64| format!("key {key}").into_bytes();
    let granted = (0..1_000).filter(|key| exhaust(&ledger, &version, &name(*key), NOON) == 1).count() as u64;
    assert!(granted > 20 && granted < 1_000, "{granted}");
    assert!(ledger.bytes() <= bytes, "{}", ledger.bytes());
    assert_eq!(ledger.owing(), (granted, granted));
    let party = |key: &[u8]| ledger.take(&[Party { version: &version, name: key, times: 1 }], &Take::now(1), NOON);
    assert_eq!(party(b"another").unwrap_err(), NoRoom);
    let known = party(&name(0));
    assert!(known.is_err() || !known.unwrap().0.is_allowed(), "it has had its permit");
}
