//! Simulation of processes that hold allotments, a store and a network, in one thread with a seed.
//!
//! It drives the code that ships: the store's side of the protocol in the core, and [`Holder`](super::Holder) on the
//! side of the process. Messages are lost, delayed, doubled and overtaken; processes crash and pause for longer than
//! their permits last; the server stalls, fails over and its clock steps. Then [`checker`] looks at every window of the
//! uses at their true times.
//!
//! `scripts/hot-keys` runs more seeds than the tests do, and prints the table that compares protocols.

mod checker;
mod demand;
mod faults;
mod messages;
mod mutants;
mod process;
mod records;
mod scenario;
mod store_node;
mod world;

use self::{
    scenario::{Focus, Scenario},
    world::HotKeyWorld,
};

/// Runs one seed; the error names what was violated.
fn run_seed(seed: u64, focus: &Focus) -> Result<(), String> {
    let scenario = Scenario::new(seed, focus);
    let named = format!("seed {seed}, {:?}, {:?}, {:?}", scenario.shape, scenario.kinds, scenario.clients);
    HotKeyWorld::new(scenario).run().map_err(|failure| format!("{failure}; {named}"))
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.replace('_', "").parse().ok()).unwrap_or(default)
}

/// No window exceeds its bound, whatever is lost, doubled, delayed, reordered, crashed or paused.
#[test]
fn no_window_exceeds_its_bound() {
    let (seeds, from) = (number("RATEKEEPER_SIM_SEEDS", 2_000), number("RATEKEEPER_SIM_FROM", 0));
    let failures = std::thread::scope(|scope| {
        let part = |part: u64| (from + part..from + seeds).step_by(PARTS);
        let run = |seed: u64| run_seed(seed, &Focus::default()).err();
        let threads: Vec<_> = (0..PARTS as u64)
            .map(|index| scope.spawn(move || part(index).filter_map(run).take(5).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(failures.is_empty(), "{} of {seeds} seeds:\n{}", failures.len(), failures.join("\n"));
}

const PARTS: usize = 2;
