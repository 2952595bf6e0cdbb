//! `ratekeeper top`: live rates, the keys refused most and the latest refusals, in the terminal.

mod page;

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    thread,
    time::Duration,
};

use clap::Args;
use serde::Deserialize;

use self::page::Screen;
use crate::{
    report::{CommandResult, Failure},
    web::{Client, Endpoint, TlsArgs, token},
};

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Address of the admin port.
    #[arg(
        long,
        env = "RATEKEEPER_ADMIN_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:9090",
        hide_env_values = true
    )]
    admin: Endpoint,
    /// The admin port's token: the first line of a file, or the variable RATEKEEPER_ADMIN_TOKEN.
    #[arg(long, env = "RATEKEEPER_ADMIN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Seconds between updates.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    every: u32,
    /// Number of updates; without a terminal, 2.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    tls: TlsArgs,
}

/// The part of `/api/state` that is shown.
#[derive(Debug, Deserialize)]
struct State {
    uptime_seconds: f64,
    rules: RulesState,
    policies: Vec<Policy>,
    store: StoreState,
    /// Decisions by source; servers before this field have none.
    #[serde(default)]
    sources: BTreeMap<String, u64>,
    switches: SwitchState,
    top_denied: Vec<Denied>,
    /// The latest first; servers before this field have none.
    #[serde(default)]
    recent_refusals: Vec<Refusal>,
}

#[derive(Debug, Deserialize)]
struct RulesState {
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
struct StoreState {
    kind: String,
    keys: u64,
    bytes: u64,
    last_failure: Option<String>,
    allotments: Option<AllotmentState>,
}

#[derive(Debug, Deserialize)]
struct AllotmentState {
    held: u64,
    holders: u64,
}

#[derive(Debug, Deserialize)]
struct SwitchState {
    everything_off: bool,
    everything_shadow: bool,
}

#[derive(Debug, Deserialize)]
struct Denied {
    domain: String,
    policy: String,
    key: String,
    /// `refused`, `banned` or `shadow`; servers before this field list refusals only.
    #[serde(default)]
    kind: String,
    denied: u64,
}

#[derive(Debug, Deserialize)]
struct Refusal {
    seconds_ago: f64,
    domain: String,
    policy: String,
    key: String,
    kind: String,
    reason: String,
}

pub(crate) fn run(args: &TopArgs) -> CommandResult {
    let token = token(args.token_file.as_deref(), "RATEKEEPER_ADMIN_TOKEN")?;
    let client = Client::new(&args.admin, &args.tls, token.as_ref())?;
    let live = io::stdout().is_terminal();
    let updates = args.count.unwrap_or(if live { u64::MAX } else { 2 });
    let mut previous: Option<State> = None;
    for update in 0..updates {
        if update > 0 {
            thread::sleep(Duration::from_secs(u64::from(args.every)));
        }
        let bytes = client.ask("/api/state", None)?;
        let state: State = serde_json::from_slice(&bytes).map_err(|error| {
            Failure::Option(format!("{}: not the state of a ratekeeper server: {error}", args.admin))
        })?;
        // The size is read each time, because terminals are resized.
        let page = page::of(&state, previous.as_ref(), live.then(Screen::now));
        let mut out = io::stdout().lock();
        // Cursor home, the page, then erase below: no flicker.
        if live {
            write!(out, "\x1b[H\x1b[J{page}")?;
        } else {
            write!(out, "{page}")?;
        }
        out.flush()?;
        previous = Some(state);
    }
    Ok(ExitCode::SUCCESS)
}
