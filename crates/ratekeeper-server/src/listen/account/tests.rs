use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::*;
use crate::{
    config::Bounds,
    listen::stall_detector::{Registration, StallDetector},
    telemetry::Wire,
};

const SECOND: Duration = Duration::from_secs(1);

/// A port with a budget of 1 MiB and a stall time of five seconds.
struct Port {
    budget: Arc<PortBudget>,
    stalls: Arc<StallDetector>,
}

impl Port {
    fn new() -> Self {
        let bounds = Bounds { pending_bytes: 1 << 20, stall: 5 * SECOND, ..Bounds::default() };
        let budget = PortBudget::new(Wire::Http, &bounds, &Arc::default());
        Self { stalls: StallDetector::new(Arc::clone(&budget), bounds.stall), budget }
    }

    /// With a running stall detector.
    fn watched() -> Self {
        let port = Self::new();
        tokio::spawn(Arc::clone(&port.stalls).run());
        port
    }

    fn open(&self) -> (Account, Registration) {
        self.stalls.register()
    }
}

/// Charges requests of this size until one is refused.
fn fill(account: &Account, bytes: usize) -> Vec<Charge> {
    std::iter::from_fn(|| account.charge(bytes).ok()).collect()
}

#[test]
fn one_connection_may_hold_half_of_the_budget_and_others_share_the_rest() {
    let port = Port::new();
    let (first, _a) = port.open();
    let held = fill(&first, 1 << 10);
    assert_eq!(held.len(), 512, "as much as is left");
    let (second, _b) = port.open();
    assert_eq!(fill(&second, 1 << 10).len(), 256);
    drop(held);
    assert_eq!(port.budget.used(), 0);
    assert_eq!(fill(&second, 1 << 10).len(), 512, "dropped charges are returned");
}

#[test]
fn many_connections_cannot_take_the_guaranteed_bytes_of_a_new_one() {
    let port = Port::new();
    let connections: Vec<_> = (0..400).map(|_| port.open()).collect();
    let held: Vec<_> = connections.iter().map(|(account, _)| fill(account, 1 << 10)).collect();
    let used = port.budget.used();
    assert!(used <= (1 << 20) + 400 * GUARANTEED_BYTES, "{used}");
    let (new, _registration) = port.open();
    assert_eq!(fill(&new, 1 << 10).len() << 10, GUARANTEED_BYTES);
    assert!(held.iter().all(|held| held.len() << 10 >= GUARANTEED_BYTES));
}

/// So a response of any length can be sent while little else is.
#[test]
fn a_charge_above_the_budget_counts_as_half_of_it() {
    let port = Port::new();
    let (account, _registration) = port.open();
    let response = account.charge(usize::MAX).unwrap();
    assert_eq!(port.budget.used(), 1 << 19);
    assert!(account.charge(usize::MAX).is_err());
    drop(response);
    assert_eq!(port.budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_not_read_closes_its_connection_and_no_other() {
    let port = Port::watched();
    let ((stalled, _a), (reading, _b), (idle, _c)) = (port.open(), port.open(), port.open());
    let since = stalled.add_unsent();
    let mut renewed = reading.add_unsent();
    for _ in 0..40 {
        sleep(SECOND / 10).await;
        renewed = reading.renew_unsent(renewed);
    }
    assert_eq!(stalled.close_reason(), None, "four of five seconds have passed");
    for _ in 0..300 {
        sleep(SECOND / 10).await;
        renewed = reading.renew_unsent(renewed);
    }
    assert_eq!(stalled.close_reason(), Some(CloseReason::Stalled));
    assert_eq!((reading.close_reason(), idle.close_reason()), (None, None));
    stalled.close_requested().await;
    stalled.remove_unsent(since);
}

#[tokio::test(start_paused = true)]
async fn the_stall_time_is_shorter_while_half_of_the_budget_is_used() {
    let port = Port::watched();
    let ((stalled, _a), (greedy, _b)) = (port.open(), port.open());
    let since = stalled.add_unsent();
    let _held = (greedy.charge_unchecked(1 << 19), greedy.charge_unchecked(1));
    sleep(SECOND * 3).await;
    assert_eq!(stalled.close_reason(), Some(CloseReason::Stalled));
    stalled.remove_unsent(since);
}

/// The header fields of refusals are kept while the socket accepts nothing, and are not charged.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_refused_while_its_socket_is_blocked_is_closed_within_a_tick() {
    let port = Port::watched();
    let ((blocked, _a), (reading, _b)) = (port.open(), port.open());
    blocked.set_write_blocked(true);
    sleep(3 * SECOND).await;
    let _held = blocked.charge_unchecked(2 << 20);
    for account in [&blocked, &reading] {
        assert!(account.charge(1 << 20).is_err());
    }
    sleep(SECOND + SECOND / 10).await;
    assert_eq!(blocked.close_reason(), Some(CloseReason::Stalled));
    assert_eq!(reading.close_reason(), None, "it has received its refusal");
}
