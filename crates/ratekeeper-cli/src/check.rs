//! `ratekeeper check`: one decision from a running server, or directly from a store.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::Args;
use ratekeeper_core::{RequestId, Source, Span, Store, Take, Terms, Verb};
use ratekeeper_rules::read_paths;
use ratekeeper_server::{
    engine::Engine,
    http::{answer_line, name_undecided},
    request::{Descriptor, Request, Subject},
    telemetry::Telemetry,
    wiring::{StorageSettings, StoreHealth, open_store, shown_address},
};
use serde_json::{Map, Value, json};

use crate::{
    argument::{prefix, request_id, whole},
    report::{self, CommandResult, Failure},
    web::{Client, Endpoint, TlsArgs, token},
};

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The domain of the rules.
    domain: String,
    /// A key, or descriptor entries as NAME=VALUE. A comma as a separate word begins another descriptor; all are charged
    /// together or none is.
    #[arg(required_unless_present = "bare_key", value_name = "KEY|NAME=VALUE")]
    who: Vec<String>,
    /// The key, even if it contains `=`, which would otherwise make it an entry (base64 ends in it).
    #[arg(long, value_name = "KEY", conflicts_with = "who", allow_hyphen_values = true)]
    bare_key: Option<String>,
    /// Permits to take; the default is the policy's cost. 0 takes nothing.
    #[arg(long, value_parser = whole)]
    cost: Option<u64>,
    /// Longest acceptable wait for them, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = whole)]
    wait: u64,
    /// Id of the request: sent again within a minute, it gets the same decision and is charged once.
    #[arg(long, value_name = "ID", value_parser = request_id)]
    id: Option<String>,
    /// Accept a part of the cost, but at least this many permits.
    #[arg(long, value_name = "N", value_parser = whole)]
    at_least: Option<u64>,
    /// Address of the server.
    #[arg(
        long,
        env = "RATEKEEPER_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080",
        hide_env_values = true,
        conflicts_with = "store"
    )]
    server: Endpoint,
    /// Token for it: the first line of a file, or the variable RATEKEEPER_TOKEN.
    #[arg(long, env = "RATEKEEPER_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Decide in this store instead, by the rules of --rules, without a server.
    #[arg(long, value_name = "redis://…", requires = "rules")]
    store: Option<String>,
    /// Rule files for --store.
    #[arg(long, value_name = "FILE|DIR", requires = "store")]
    rules: Vec<PathBuf>,
    /// Prefix of key names, for --store.
    #[arg(long, value_name = "PREFIX", default_value = "ratekeeper", requires = "store", value_parser = prefix)]
    prefix: String,
    #[command(flatten)]
    tls: TlsArgs,
}

/// What is asked about: a key, or descriptors.
enum CheckedKey<'a> {
    Key(&'a str),
    Descriptors(Vec<Vec<(&'a str, &'a str)>>),
}

pub(crate) fn run(args: &CheckArgs) -> CommandResult {
    let checked_key = args.checked_key()?;
    let line = match &args.store {
        Some(url) => args.ask_store(url, &checked_key)?,
        None => args.ask_server(&checked_key)?,
    };
    io::stdout().lock().write_all(&line)?;
    let result: Value = serde_json::from_slice(&line).unwrap_or_default();
    if result["source"] == "no_policy"
        && let [word] = args.who.as_slice()
        && word.ends_with('=')
    {
        report::print(&format_args!(
            "no policy matches the entry {}; use --bare-key {word} if it is a key",
            report::shown(word)
        ));
    }
    Ok(if result["verdict"] == "allow" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl CheckArgs {
    fn checked_key(&self) -> Result<CheckedKey<'_>, Failure> {
        let words = match (&self.bare_key, self.who.as_slice()) {
            (Some(key), _) => return Ok(CheckedKey::Key(key)),
            (None, [key]) if !key.contains('=') => return Ok(CheckedKey::Key(key)),
            (None, words) => words,
        };
        let descriptors = words.split(|word| word == NEXT).map(entries).collect::<Result<Vec<_>, _>>()?;
        Ok(CheckedKey::Descriptors(descriptors))
    }

    fn terms(&self) -> Terms {
        let mut terms = self.id.as_ref().map_or(Terms::NONE, |id| Terms::id(RequestId::of(id)));
        terms.at_least = self.at_least;
        terms
    }

    fn ask_server(&self, checked_key: &CheckedKey<'_>) -> Result<Vec<u8>, Failure> {
        let mut body = json!({ "domain": self.domain, "max_wait_ms": self.wait });
        match checked_key {
            CheckedKey::Key(key) => body["key"] = json!(key),
            CheckedKey::Descriptors(descriptors) => {
                let object = |entries: &Vec<(&str, &str)>| {
                    let entries = entries.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
                    Value::Object(entries.collect::<Map<_, _>>())
                };
                match descriptors.as_slice() {
                    [entries] => body["descriptor"] = object(entries),
                    several => body["descriptors"] = several.iter().map(object).collect(),
                }
            }
        }
        if let Some(cost) = self.cost {
            body["cost"] = json!(cost);
        }
        if let Some(id) = &self.id {
            body["request_id"] = json!(id);
        }
        if let Some(least) = self.at_least {
            body["at_least"] = json!(least);
        }
        let token = token(self.token_file.as_deref(), "RATEKEEPER_TOKEN")?;
        let response =
            Client::new(&self.server, &self.tls, token.as_ref())?.ask("/v1/check", Some(body.to_string()))?;
        Ok(response.to_vec())
    }

    fn ask_store(&self, url: &str, checked_key: &CheckedKey<'_>) -> Result<Vec<u8>, Failure> {
        let files = read_paths(&self.rules).map_err(Failure::Rules)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let settings =
                StorageSettings { prefix: self.prefix.clone(), deadline: DEADLINE, ..StorageSettings::default() };
            let store = open_store(url, &settings).await.map_err(Failure::Store)?;
            let engine = Engine::new(store, Arc::new(Telemetry::default()));
            engine.load(Ok(files)).map_err(|error| Failure::Option(error.to_string()))?;
            let subject = |descriptor| Subject { descriptor, cost: self.cost, ..Subject::key("") };
            let subjects: Vec<Subject<'_>> = match checked_key {
                CheckedKey::Key(key) => vec![subject(Descriptor::Key(key))],
                CheckedKey::Descriptors(all) => {
                    all.iter().map(|entries| subject(Descriptor::Entries(entries))).collect()
                }
            };
            let verb = Verb::Take(Take::up_to(Span::from_millis(self.wait)));
            let request = Request { domain: &self.domain, subjects: &subjects, verb };
            let answer = engine.decide_with(&request, &self.terms()).await;
            let mut answer = answer.map_err(|error| Failure::Option(error.to_string()))?;
            // A fallback decision of a process that is about to exit would be misleading.
            let source = answer.decision.as_ref().map(|decision| decision.source);
            if let Some(Source::Local | Source::Open | Source::Closed) = source {
                let failure = StoreHealth::of(engine.store()).last_failure;
                let cause = failure.map_or_else(|| "it did not answer".to_owned(), |(_, cause)| cause);
                return Err(Failure::Option(format!("--store {}: {cause}", shown_address(url))));
            }
            name_undecided(&mut answer, &subjects);
            Ok(answer_line(&answer, &subjects, verb, engine.store().now()))
        })
    }
}

/// The entries of one descriptor.
fn entries(words: &[String]) -> Result<Vec<(&str, &str)>, Failure> {
    if words.is_empty() {
        return Err(Failure::Options("a comma goes between two descriptors; give each an entry, NAME=VALUE"));
    }
    let mut entries: Vec<(&str, &str)> = Vec::new();
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            return Err(Failure::Options("give one key, or descriptor entries as NAME=VALUE; not both"));
        };
        let word = report::shown(word);
        if name.is_empty() {
            return Err(Failure::Option(format!("{word} has no name before the =; write NAME=VALUE")));
        }
        if entries.iter().any(|(known, _)| *known == name) {
            let message = format!("{name} is named twice; a request has one value for each entry");
            return Err(Failure::Option(report::escaped_lines(&message)));
        }
        entries.push((name, value));
    }
    Ok(entries)
}

/// The word between two descriptors.
const NEXT: &str = ",";

/// Deadline of the decision in --store; generous, because nothing else waits for it.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(5);
