//! `tollgate top`: live rates and the keys refused most, in the terminal.

mod page;

use std::{
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
    check::token,
    report::{Failure, Outcome},
    web::{Client, Place, Trust},
};

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Where a server is looked after.
    #[arg(
        long,
        env = "TOLLGATE_ADMIN_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:9090",
        hide_env_values = true
    )]
    admin: Place,
    /// The admin port's token: the first line of a file, or the variable TOLLGATE_ADMIN_TOKEN.
    #[arg(long, env = "TOLLGATE_ADMIN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Seconds between looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    every: u32,
    /// Look so many times, and stop; without a terminal, twice.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    trust: Trust,
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
    /// `refused`, `banned` or `shadow`; servers before this field list refusals only.
    #[serde(default)]
    kind: String,
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
        // Asked each time: terminals are pulled larger and smaller.
        let page = page::of(&state, before.as_ref(), live.then(Screen::now));
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
