use super::*;

const MS: Duration = Duration::from_millis(1);

/// A breaker on a manual clock.
struct Bench {
    breaker: Breaker,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self { breaker: Breaker::new(BreakerSettings::default(), Random::seeded(3)), now: Instant::now() }
    }

    fn on(&mut self, event: Event) -> Option<Change> {
        self.breaker.on(event, self.now)
    }

    fn times(&mut self, count: u32, event: Event) -> Vec<Change> {
        (0..count).filter_map(|_| self.on(event)).collect()
    }

    fn opened() -> Self {
        let mut bench = Self::new();
        assert_eq!(bench.times(5, Event::Failed), [Change::Opened]);
        bench
    }
}

#[test]
fn five_failures_in_a_row_open_it_and_four_do_not() {
    let mut bench = Bench::new();
    assert_eq!(bench.times(4, Event::Failed), []);
    bench.on(Event::Answered);
    assert_eq!(bench.times(4, Event::Failed), []);
    assert!(bench.breaker.is_closed());
    assert_eq!(bench.on(Event::Failed), Some(Change::Opened));
    assert!(!bench.breaker.is_closed());
}

#[test]
fn failures_in_a_row_count_however_far_apart() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.on(Event::Failed);
        bench.now += Duration::from_secs(60);
    }
    assert_eq!(bench.on(Event::Failed), Some(Change::Opened));
}

#[test]
fn half_of_twenty_calls_within_a_second_open_it() {
    let mut bench = Bench::new();
    let mut calls = 0;
    let change = loop {
        bench.now += MS * 10;
        let event = if calls % 2 == 0 { Event::Answered } else { Event::Failed };
        calls += 1;
        if let Some(change) = bench.on(event) {
            break change;
        }
        assert!(calls < 100);
    };
    assert_eq!((change, calls), (Change::Opened, 20));
}

#[test]
fn half_of_few_calls_or_less_than_half_of_many_do_not() {
    let mut bench = Bench::new();
    for call in 0..1000 {
        // Fifteen calls in any second, every other one failing.
        bench.now += MS * 70;
        assert_eq!(bench.on(if call % 2 == 0 { Event::Answered } else { Event::Failed }), None);
    }
    bench.now += Duration::from_secs(2);
    for call in 0..1000 {
        // A thousand calls in a second, every third one failing.
        bench.now += MS;
        assert_eq!(bench.on(if call % 3 == 2 { Event::Failed } else { Event::Answered }), None);
    }
}

#[test]
fn probes_come_after_a_jittered_pause_and_then_without_one() {
    let mut bench = Bench::opened();
    let first = bench.breaker.probe_at(bench.now).unwrap() - bench.now;
    assert!((MS * 20..=MS * 50).contains(&first), "a short pause of the node is soon over: {first:?}");
    bench.now += first;
    assert_eq!(bench.on(Event::ProbeFailed), None);
    let mut pauses = Vec::new();
    for _ in 0..200 {
        let pause = bench.breaker.probe_at(bench.now).unwrap() - bench.now;
        pauses.push(pause);
        bench.now += pause;
        assert_eq!(bench.on(Event::ProbeFailed), None);
    }
    assert!(pauses.iter().all(|pause| (MS * 100..=MS * 500).contains(pause)), "{pauses:?}");
    assert!(pauses.iter().min() < Some(&(MS * 150)) && pauses.iter().max() > Some(&(MS * 450)));

    assert_eq!(bench.on(Event::Probed), None);
    assert_eq!(bench.breaker.probe_at(bench.now), Some(bench.now));
    assert_eq!(bench.on(Event::Probed), None);
    assert_eq!(bench.on(Event::Probed), Some(Change::Closed));
    assert_eq!(bench.breaker.probe_at(bench.now), None);
}

#[test]
fn a_failed_probe_while_half_open_starts_over() {
    let mut bench = Bench::opened();
    assert_eq!(bench.times(2, Event::Probed), []);
    assert_eq!(bench.on(Event::ProbeFailed), None);
    assert!(bench.breaker.probe_at(bench.now).unwrap() >= bench.now + MS * 100);
    assert_eq!(bench.times(2, Event::Probed), []);
    assert_eq!(bench.on(Event::Probed), Some(Change::Closed));
}

#[test]
fn a_closed_breaker_starts_without_failures() {
    let mut bench = Bench::opened();
    assert_eq!(bench.times(3, Event::Probed), [Change::Closed]);
    assert_eq!(bench.times(4, Event::Failed), []);
}

#[test]
fn outcomes_of_earlier_calls_do_not_change_an_open_breaker() {
    let mut bench = Bench::opened();
    let probe_at = bench.breaker.probe_at(bench.now);
    assert_eq!(bench.times(10, Event::Answered), []);
    assert_eq!(bench.times(10, Event::Failed), []);
    assert_eq!(bench.breaker.probe_at(bench.now), probe_at);
    assert!(!bench.breaker.is_closed());
}

/// For random histories: openings and closings alternate, calls are allowed exactly between a closing and an opening,
/// and an open breaker has a next probe within its bounds.
#[test]
fn random_histories_keep_the_invariants() {
    for seed in 0..500 {
        let mut dice = Random::seeded(seed);
        let mut bench = Bench::new();
        let mut is_open = false;
        for _ in 0..500 {
            bench.now += dice.between(Duration::ZERO, MS * 60);
            let event = match dice.between(Duration::ZERO, Duration::from_micros(3)).as_micros() {
                0 => Event::Answered,
                1 => Event::Failed,
                2 => Event::Probed,
                _ => Event::ProbeFailed,
            };
            match bench.on(event) {
                Some(Change::Opened) => {
                    assert!(!is_open && matches!(event, Event::Failed | Event::ProbeFailed));
                    is_open = true;
                }
                Some(Change::Closed) => {
                    assert!(is_open && event == Event::Probed);
                    is_open = false;
                }
                None => {}
            }
            assert_eq!(bench.breaker.is_closed(), !is_open);
            let probe_at = bench.breaker.probe_at(bench.now);
            assert_eq!(probe_at.is_some(), is_open);
            assert!(probe_at.is_none_or(|at| at <= bench.now + MS * 500));
        }
    }
}
