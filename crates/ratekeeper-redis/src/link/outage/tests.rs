use super::*;

fn down() -> HealthStatus {
    HealthStatus::Down("connection refused".to_owned())
}

fn degraded() -> HealthStatus {
    HealthStatus::Degraded("1 of 3".to_owned())
}

fn lost() -> Option<OutageEvent> {
    Some(OutageEvent::Lost { cause: "connection refused".to_owned() })
}

struct Fixture {
    outages: Outages,
    now: Instant,
}

impl Fixture {
    fn new() -> Self {
        Self { outages: Outages::default(), now: Instant::now() }
    }

    /// The event of this status and breaker count, `millis` later.
    fn after(&mut self, millis: u64, status: HealthStatus, breaker_opened: u64) -> Option<OutageEvent> {
        self.now += Duration::from_millis(millis);
        self.outages.on(&status, breaker_opened, self.now)
    }
}

#[test]
fn an_outage_is_logged_once_at_its_start_and_once_at_its_end() {
    let mut store = Fixture::new();
    assert_eq!(store.after(0, HealthStatus::Up, 0), None);
    assert_eq!(store.after(100, down(), 0), lost());
    assert_eq!(store.after(100, down(), 0), None);
    assert_eq!(store.after(3_000, HealthStatus::Up, 0), None, "not settled yet");
    assert!(store.outages.is_over_soon());
    assert_eq!(
        store.after(1_000, HealthStatus::Up, 0),
        Some(OutageEvent::Back { after: Duration::from_millis(3_100) })
    );
    assert_eq!(store.after(100, HealthStatus::Up, 0), None);
    assert!(!store.outages.is_over_soon());
}

#[test]
fn a_flapping_store_is_one_outage() {
    let mut store = Fixture::new();
    assert!(store.after(0, down(), 1).is_some());
    for opened in 2..50 {
        assert_eq!(store.after(500, HealthStatus::Up, opened), None);
        assert_eq!(store.after(300, down(), opened), None);
    }
    assert_eq!(store.after(100, HealthStatus::Up, 49), None);
    assert!(matches!(store.after(1_000, HealthStatus::Up, 49), Some(OutageEvent::Back { .. })));
}

#[test]
fn a_breaker_that_opened_and_closed_between_evaluations_is_an_outage() {
    let mut store = Fixture::new();
    assert_eq!(store.after(0, HealthStatus::Up, 0), None);
    assert_eq!(store.after(100, HealthStatus::Up, 1), Some(OutageEvent::Lost { cause: BRIEF_OUTAGE.to_owned() }));
    assert!(store.outages.is_over_soon(), "evaluated again although nothing changes");
    assert_eq!(store.after(100, HealthStatus::Up, 1), None);
    assert!(matches!(store.after(1_000, HealthStatus::Up, 1), Some(OutageEvent::Back { .. })));
}

#[test]
fn a_partial_outage_that_becomes_total_is_logged_again() {
    let mut store = Fixture::new();
    assert_eq!(store.after(0, degraded(), 0), Some(OutageEvent::PartlyLost { cause: "1 of 3".to_owned() }));
    assert_eq!(store.after(100, degraded(), 0), None);
    assert_eq!(store.after(100, down(), 0), lost());
    assert_eq!(store.after(100, degraded(), 0), None);
}
