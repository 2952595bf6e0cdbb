//! `tollgate top`: live rates and the keys refused most, in the terminal.

use std::{
    collections::HashMap,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    thread,
    time::Duration,
};

use clap::Args;
use serde::Deserialize;

use crate::{
    check::token,
    report::{Failure, Outcome},
    web::{Client, Place, Trust},
};

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Where a server is looked after.
    #[arg(long, env = "TOLLGATE_ADMIN_URL", value_name = "URL", default_value = "http://127.0.0.1:9090")]
    admin: Place,
    /// The admin port's token: the first line of a file, or the variable TOLLGATE_ADMIN_TOKEN.
    #[arg(long, env = "TOLLGATE_ADMIN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
    /// Seconds between looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    every: u32,
    /// Look so many times, and stop; without a terminal, twice.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// The part of `/api/state` that is shown.
#[derive(Debug, Deserialize)]
struct State {
    uptime_seconds: f64,
    rules: Rules,
    policies: Vec<Policy>,
    store: Store,
    switches: Switches,
    top_denied: Vec<Denied>,
}

#[derive(Debug, Deserialize)]
struct Rules {
    generation: u64,
    problem: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Policy {
    domain: String,
    policy: String,
    allowed: u64,
    denied: u64,
    never: u64,
    shadow_denied: u64,
}

#[derive(Debug, Deserialize)]
struct Store {
    kind: String,
    keys: u64,
    bytes: u64,
    last_failure: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Switches {
    everything_off: bool,
    everything_watches: bool,
}

#[derive(Debug, Deserialize)]
struct Denied {
    domain: String,
    policy: String,
    key: String,
    denied: u64,
}

pub(crate) fn run(args: &TopArgs) -> Outcome {
    let token = token(args.token_file.as_deref(), "TOLLGATE_ADMIN_TOKEN")?;
    let client = Client::new(&args.admin, &args.trust, token.as_ref())?;
    let live = io::stdout().is_terminal();
    let looks = args.count.unwrap_or(if live { u64::MAX } else { 2 });
    let mut before: Option<State> = None;
    for look in 0..looks {
        if look > 0 {
            thread::sleep(Duration::from_secs(u64::from(args.every)));
        }
        let bytes = client.ask("/api/state", None)?;
        let state: State = serde_json::from_slice(&bytes)
            .map_err(|error| Failure::Option(format!("{}: not the state of a tollgate server: {error}", args.admin)))?;
        let page = page(&state, before.as_ref());
        let mut out = io::stdout().lock();
        // Home, the page, and nothing below it: no flicker.
        if live {
            write!(out, "\x1b[H\x1b[J{page}")?;
        } else {
            write!(out, "{page}")?;
        }
        out.flush()?;
        before = Some(state);
    }
    Ok(ExitCode::SUCCESS)
}

fn page(state: &State, before: Option<&State>) -> String {
    let mut page = String::new();
    let seconds = before.map_or(0.0, |before| state.uptime_seconds - before.uptime_seconds);
    let old: HashMap<(&str, &str), &Policy> = before
        .iter()
        .flat_map(|before| &before.policies)
        .map(|policy| ((policy.domain.as_str(), policy.policy.as_str()), policy))
        .collect();
    let store = match state.store.kind.as_str() {
        "memory" => format!("memory: {} keys, {} KiB", state.store.keys, state.store.bytes / 1024),
        other => other.to_owned(),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(page, "up {:.0} s · rules read {} × · {store}", state.uptime_seconds, state.rules.generation);
    for (is, words) in [
        (state.switches.everything_off, "EVERYTHING IS LET THROUGH: the global switch is off"),
        (state.switches.everything_watches, "nobody is refused: all rules only watch"),
    ] {
        if is {
            let _ = writeln!(page, "{words}");
        }
    }
    if let Some(problem) = &state.rules.problem {
        let _ = writeln!(page, "the rule files have mistakes; older rules are in force:\n{problem}");
    }
    if let Some(failure) = &state.store.last_failure {
        let _ = writeln!(page, "the store failed {failure}");
    }
    let _ = writeln!(
        page,
        "\n{:<40} {:>10} {:>10} {:>12} {:>12} {:>12}",
        "policy", "allowed/s", "refused/s", "allowed", "refused", "would refuse"
    );
    for policy in &state.policies {
        let was = old.get(&(policy.domain.as_str(), policy.policy.as_str()));
        let refused = policy.denied + policy.never;
        let rate = |now: u64, was: Option<u64>| match was {
            Some(was) if seconds > 0.0 => format!("{:.1}", as_float(now.saturating_sub(was)) / seconds),
            _ => "-".to_owned(),
        };
        let _ = writeln!(
            page,
            "{:<40} {:>10} {:>10} {:>12} {:>12} {:>12}",
            clip(&format!("{}/{}", policy.domain, policy.policy), 40),
            rate(policy.allowed, was.map(|was| was.allowed)),
            rate(refused, was.map(|was| was.denied + was.never)),
            policy.allowed,
            refused,
            policy.shadow_denied,
        );
    }
    if !state.top_denied.is_empty() {
        let _ = writeln!(page, "\n{:<40} {:<40} {:>10}", "refused most", "policy", "refused");
    }
    for denied in &state.top_denied {
        let policy = format!("{}/{}", denied.domain, denied.policy);
        let _ = writeln!(page, "{:<40} {:<40} {:>10}", clip(&denied.key, 40), clip(&policy, 40), denied.denied);
    }
    page
}

/// Counts in a rate need no more digits than a double has.
#[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn as_float(count: u64) -> f64 {
    count as f64
}

/// Keys are anybody's text: no control characters, and no longer than the column.
fn clip(text: &str, width: usize) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    if clean.chars().count() <= width {
        return clean;
    }
    clean.chars().take(width - 1).chain(['…']).collect()
}
