//! Explanation of the next request of a key: of a running server, or of a store and rule files.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use ratekeeper_core::{Take, Verb};
use ratekeeper_rules::read_paths;
use ratekeeper_server::{
    engine::Engine,
    request::{Descriptor, Request, Subject},
    telemetry::Telemetry,
    wiring::{StorageSettings, open_store, shown_address},
};
use serde_json::{Map, Value, json};

use super::ExplainArgs;
use crate::{
    report::{CommandResult, Failure, escaped_lines, shown},
    web::{Client, Endpoint, token},
};

/// Prints the explanation. The exit code is that of `check`: 0 if the request would be allowed now.
pub(super) fn run(args: &ExplainArgs) -> CommandResult {
    let entries = entries(args)?;
    if args.key.is_some() != entries.is_empty() {
        return Err(Failure::Options("name a key with --key K, or a descriptor with --entry NAME=VALUE"));
    }
    let (text, is_allowed) = match (&args.server, &args.store) {
        (Some(server), _) => ask_server(args, server, &entries)?,
        (None, Some(store)) => ask_store(args, store, &entries)?,
        (None, None) => return Err(Failure::Options("name a --server or a --store")),
    };
    write!(io::stdout().lock(), "{}", escaped_lines(&text))?;
    Ok(if is_allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn entries(args: &ExplainArgs) -> Result<Vec<(&str, &str)>, Failure> {
    let entry = |word: &'_ String| {
        let named = word.split_once('=').filter(|(name, _)| !name.is_empty());
        named.is_none().then(|| Failure::Option(format!("--entry {}: write NAME=VALUE", shown(word))))
    };
    match args.entries.iter().find_map(entry) {
        Some(failure) => Err(failure),
        None => Ok(args.entries.iter().filter_map(|word| word.split_once('=')).collect()),
    }
}

fn ask_server(args: &ExplainArgs, server: &Endpoint, entries: &[(&str, &str)]) -> Result<(String, bool), Failure> {
    let mut body = Map::new();
    if let Some(domain) = &args.domain {
        body.insert("domain".to_owned(), json!(domain));
    }
    match &args.key {
        Some(key) => body.insert("key".to_owned(), json!(key)),
        None => {
            let entries = entries.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
            body.insert("descriptor".to_owned(), Value::Object(entries.collect()))
        }
    };
    if let Some(cost) = args.cost {
        body.insert("cost".to_owned(), json!(cost));
    }
    let token = token(args.token_file.as_deref(), "RATEKEEPER_ADMIN_TOKEN")?;
    let client = Client::new(server, &args.tls(), token.as_ref())?;
    let reply = client.ask("/api/explain", Some(Value::Object(body).to_string()))?;
    let reply: Value = serde_json::from_slice(&reply).unwrap_or_default();
    let is_denied = reply["subjects"].as_array().is_some_and(|subjects| {
        subjects.iter().any(|subject| {
            subject["resolution"] == "refused_always" || subject["verdict"] == "deny" || subject["verdict"] == "never"
        })
    });
    Ok((reply["text"].as_str().unwrap_or_default().to_owned(), !is_denied))
}

fn ask_store(args: &ExplainArgs, url: &str, entries: &[(&str, &str)]) -> Result<(String, bool), Failure> {
    let files = read_paths(&args.rules).map_err(Failure::Rules)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let settings =
            StorageSettings { prefix: args.prefix.clone(), deadline: DEADLINE, ..StorageSettings::default() };
        let store = open_store(url, &settings).await.map_err(Failure::Store)?;
        let engine = Engine::new(store, Arc::new(Telemetry::default()));
        engine.load(Ok(files)).map_err(|error| Failure::Option(error.to_string()))?;
        let book = engine.rulebook();
        let domain = match (&args.domain, book.domains().as_slice()) {
            (Some(domain), _) => domain.clone(),
            (None, [only]) => (*only).to_owned(),
            _ => return Err(Failure::Options("the rules have several domains; name one with --domain")),
        };
        let mut entries = entries.to_vec();
        book.arrange(&domain, &mut entries);
        let descriptor = args.key.as_deref().map_or(Descriptor::Entries(&entries), Descriptor::Key);
        let subjects = [Subject { descriptor, cost: args.cost, ..Subject::key("") }];
        let request = Request { domain: &domain, subjects: &subjects, verb: Verb::Take(Take::now()) };
        let explained = engine
            .explain(&request)
            .await
            .map_err(|error| Failure::Option(format!("--store {}: {error}", shown_address(url))))?;
        let texts: Vec<&str> = explained.iter().map(|subject| subject.text.as_str()).collect();
        let is_allowed = explained.iter().all(|subject| match &subject.decision {
            Some((_, decision)) => decision.is_allowed(),
            None => subject.resolution != ratekeeper_server::engine::Resolution::RefusedAlways,
        });
        Ok((texts.join("\n"), is_allowed))
    })
}

/// Deadline of the look-up in --store; generous, because nothing else waits for it.
const DEADLINE: Duration = Duration::from_secs(5);
