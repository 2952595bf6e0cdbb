use tokio::time::{advance, sleep};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn port(pending_bytes: usize) -> Arc<PortBudget> {
    let bounds = Bounds { pending_bytes, ..Bounds::default() };
    PortBudget::new(Wire::Http, &bounds, &Arc::default())
}

/// Charges requests of this size until one is refused.
fn fill(account: &Account, bytes: usize) -> Vec<Charge> {
    std::iter::from_fn(|| account.charge(bytes).ok()).collect()
}

#[test]
fn one_connection_may_hold_half_of_the_budget_and_others_share_what_is_left() {
    let port = port(1 << 20);
    let (first, _a) = port.open();
    let held = fill(&first, 1 << 10);
    assert_eq!(held.len(), 512, "as much as is left");
    let (second, _b) = port.open();
    assert_eq!(fill(&second, 1 << 10).len(), 256);
    drop(held);
    assert_eq!(port.used.load(Ordering::Relaxed), 0);
    assert_eq!(fill(&second, 1 << 10).len(), 512, "what was held is given back");
}

#[test]
fn a_crowd_cannot_take_the_room_of_a_newcomer() {
    let port = port(1 << 20);
    let crowd: Vec<_> = (0..400).map(|_| port.open()).collect();
    let held: Vec<_> = crowd.iter().map(|(account, _)| fill(account, 1 << 10)).collect();
    let used = port.used.load(Ordering::Relaxed);
    assert!(used <= (1 << 20) + 400 * GUARANTEED_BYTES, "{used}");
    let (newcomer, _registered) = port.open();
    assert_eq!(fill(&newcomer, 1 << 10).len() << 10, GUARANTEED_BYTES);
    assert!(held.iter().all(|held| held.len() << 10 >= GUARANTEED_BYTES));
}

/// A page of any length can be sent, if little else is.
#[test]
fn what_is_longer_than_the_budget_counts_as_half_of_it() {
    let port = port(1 << 20);
    let (account, _registered) = port.open();
    let page = account.charge(usize::MAX).unwrap();
    assert_eq!(port.used.load(Ordering::Relaxed), 1 << 19);
    assert!(account.charge(usize::MAX).is_err());
    drop(page);
    assert_eq!(port.used.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_taken_closes_its_connection_and_no_other() {
    let port = port(1 << 20);
    let _watching = tokio::spawn(Arc::clone(&port).watch());
    let ((stalled, _a), (reading, _b), (idle, _c)) = (port.open(), port.open(), port.open());
    let since = stalled.waits();
    let mut renewed = reading.waits();
    for _ in 0..40 {
        sleep(SECOND / 10).await;
        renewed = reading.waits_on(renewed);
    }
    assert_eq!(stalled.closing(), None, "four seconds are not five");
    for _ in 0..300 {
        sleep(SECOND / 10).await;
        renewed = reading.waits_on(renewed);
    }
    assert_eq!(stalled.closing(), Some(Reason::Stalled));
    assert_eq!((reading.closing(), idle.closing()), (None, None));
    stalled.closed().await;
    stalled.waits_no_more(since);
}

#[tokio::test(start_paused = true)]
async fn under_pressure_the_time_is_shorter() {
    let port = port(1 << 20);
    let _watching = tokio::spawn(Arc::clone(&port).watch());
    let ((stalled, _a), (greedy, _b)) = (port.open(), port.open());
    let since = stalled.waits();
    let _held = (greedy.charge_anyway(1 << 19), greedy.charge_anyway(1));
    sleep(SECOND * 3).await;
    assert_eq!(stalled.closing(), Some(Reason::Stalled));
    stalled.waits_no_more(since);
}

/// The headers of refusals are kept while the socket takes nothing, so their connection is not.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_refused_and_reads_nothing_is_closed_within_a_tick() {
    let port = port(1 << 20);
    let _watching = tokio::spawn(Arc::clone(&port).watch());
    let ((deaf, _a), (refused, _b)) = (port.open(), port.open());
    deaf.is_blocked(true);
    advance(3 * SECOND).await;
    for account in [&deaf, &refused] {
        let _ = account.charge_anyway(2 << 20);
        let _held = account.charge_anyway(2 << 20);
        assert!(account.charge(1).is_err());
    }
    sleep(SECOND + SECOND / 10).await;
    assert_eq!(deaf.closing(), Some(Reason::Stalled));
    assert_eq!(refused.closing(), None, "it has read that it was refused");
}
