//! Simulation of processes that hold allotments, a store and a network, in one thread with a seed.
//!
//! It drives the code that ships: the store's side of the protocol in the core, and [`Holder`](super::Holder) on the
//! side of the process. Messages are lost, delayed, doubled and overtaken; processes crash and pause for longer than
//! their permits last; the server stalls, fails over and its clock steps. Then [`checker`] looks at every window of the
//! uses at their true times.
//!
//! `scripts/hot-keys` runs more seeds than the tests do, and prints the table that compares protocols.

mod checker;
mod clients;
mod demand;
mod ended_kept;
mod fault_events;
mod faults;
mod messages;
mod mutant_runs;
mod mutants;
mod naive;
mod network;
mod process;
mod records;
mod scenario;
mod store_node;
mod table;
mod world;

use self::{
    scenario::{Focus, HotKeyScenario},
    world::HotKeyWorld,
};

/// Runs one seed; the error names what was violated.
fn run_seed(seed: u64, focus: &Focus) -> Result<(), String> {
    let scenario = HotKeyScenario::new(seed, focus);
    let named = format!("seed {seed}, {:?}, {:?}, {:?}", scenario.shape, scenario.kinds, scenario.clients);
    HotKeyWorld::new(scenario).run().map_err(|failure| format!("{failure}; {named}"))
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.replace('_', "").parse().ok()).unwrap_or(default)
}

/// No window exceeds its bound, whatever is lost, doubled, delayed, reordered, crashed or paused. Every holder's permits are
/// accounted for.
#[test]
fn no_window_exceeds_its_bound() {
    let (seeds, from) = (number("RATEKEEPER_SIM_SEEDS", 2_000), number("RATEKEEPER_SIM_FROM", 0));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let failures = std::thread::scope(|scope| {
        let run = |first: u64| {
            let seeds = (from + first..from + seeds).step_by(threads);
            seeds.filter_map(|seed| run_seed(seed, &Focus::default()).err()).take(5).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..threads as u64).map(|first| scope.spawn(move || run(first))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(failures.is_empty(), "{} of {seeds} seeds:\n{}", failures.len(), failures.join("\n"));
}
