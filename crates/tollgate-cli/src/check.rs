//! `tollgate check`: one question to a running server, or straight to a store.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::Args;
use serde_json::{Map, Value, json};
use tollgate_core::{Micros, Source, Store};
use tollgate_rules::read_paths;
use tollgate_server::{
    engine::{Asked, Engine, Question, Subject, Who},
    http::{answer_line, name_undecided},
    security::Secret,
    telemetry::Telemetry,
    wiring::{Storage, StorageSettings},
};

use crate::{
    cli::{prefix, whole},
    report::{self, Failure, Outcome},
    web::{Client, Place, Trust},
};

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Which rules are meant.
    domain: String,
    /// A key, or descriptor entries as NAME=VALUE.
    #[arg(required_unless_present = "bare_key", value_name = "KEY|NAME=VALUE")]
    who: Vec<String>,
    /// The key, whatever signs are in it: base64 ends in =, which would make it an entry above.
    #[arg(long, value_name = "KEY", conflicts_with = "who", allow_hyphen_values = true)]
    bare_key: Option<String>,
    /// Permits; what the policy says unless given. 0 looks only.
    #[arg(long, value_parser = whole)]
    cost: Option<u64>,
    /// How long you would wait for them, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = whole)]
    wait: u64,
    /// Where a server answers.
    #[arg(
        long,
        env = "TOLLGATE_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080",
        hide_env_values = true,
        conflicts_with = "store"
    )]
    server: Place,
    /// A token that it knows: the first line of a file, or the variable TOLLGATE_TOKEN.
    #[arg(long, env = "TOLLGATE_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Ask this store instead, by the rules of --rules; no server takes part.
    #[arg(long, value_name = "redis://…", requires = "rules")]
    store: Option<String>,
    /// Rule files for --store.
    #[arg(long, value_name = "FILE|DIR", requires = "store")]
    rules: Vec<PathBuf>,
    /// What the names of keys begin with, for --store.
    #[arg(long, value_name = "PREFIX", default_value = "tollgate", requires = "store", value_parser = prefix)]
    prefix: String,
    #[command(flatten)]
    trust: Trust,
}

/// Who is meant.
enum Meant<'a> {
    Key(&'a str),
    Entries(Vec<(&'a str, &'a str)>),
}

pub(crate) fn run(args: &CheckArgs) -> Outcome {
    let meant = args.meant()?;
    let line = match &args.store {
        Some(url) => args.ask_store(url, &meant)?,
        None => args.ask_server(&meant)?,
    };
    io::stdout().lock().write_all(&line)?;
    let told: Value = serde_json::from_slice(&line).unwrap_or_default();
    if told["source"] == "no_policy"
        && let [word] = args.who.as_slice()
        && word.ends_with('=')
    {
        report::tell(&format_args!(
            "no policy is about the entry that {} names; use --bare-key {word} if it is a key",
            report::shown(word)
        ));
    }
    Ok(if told["verdict"] == "allow" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl CheckArgs {
    fn meant(&self) -> Result<Meant<'_>, Failure> {
        let words = match (&self.bare_key, self.who.as_slice()) {
            (Some(key), _) => return Ok(Meant::Key(key)),
            (None, [key]) if !key.contains('=') => return Ok(Meant::Key(key)),
            (None, words) => words,
        };
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
                return Err(Failure::Option(report::harmless(&message)));
            }
            entries.push((name, value));
        }
        Ok(Meant::Entries(entries))
    }

    fn ask_server(&self, meant: &Meant<'_>) -> Result<Vec<u8>, Failure> {
        let mut body = json!({ "domain": self.domain, "max_wait_ms": self.wait });
        match meant {
            Meant::Key(key) => body["key"] = json!(key),
            Meant::Entries(entries) => {
                let entries = entries.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
                body["descriptor"] = Value::Object(entries.collect::<Map<_, _>>());
            }
        }
        if let Some(cost) = self.cost {
            body["cost"] = json!(cost);
        }
        let token = token(self.token_file.as_deref(), "TOLLGATE_TOKEN")?;
        let answer =
            Client::new(&self.server, &self.trust, token.as_ref())?.ask("/v1/check", Some(body.to_string()))?;
        Ok(answer.to_vec())
    }

    fn ask_store(&self, url: &str, meant: &Meant<'_>) -> Result<Vec<u8>, Failure> {
        let files = read_paths(&self.rules).map_err(Failure::Rules)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let settings =
                StorageSettings { prefix: self.prefix.clone(), deadline: PATIENCE, ..StorageSettings::default() };
            let store = Storage::open(url, &settings).await.map_err(Failure::Store)?;
            let engine = Engine::new(store, Arc::new(Telemetry::default()));
            engine.load(Ok(files)).map_err(|error| Failure::Option(error.to_string()))?;
            let who = match meant {
                Meant::Key(key) => Who::Key(key),
                Meant::Entries(entries) => Who::Descriptor(entries),
            };
            let subjects = [Subject { who, cost: self.cost, limit: None }];
            let verb = Asked::Take { max_wait: Micros::from_millis(self.wait) };
            let question = Question { domain: &self.domain, subjects: &subjects, verb };
            let mut answer = engine.ask(&question).await.map_err(|error| Failure::Option(error.to_string()))?;
            // The store's word or none: a rule that answers without it, in a process that is about to end, answers nothing.
            let source = answer.decision.as_ref().map(|decision| decision.source);
            if let Some(Source::Local | Source::Open | Source::Closed) = source {
                let failure = engine.store().health().last_failure;
                let why = failure.map_or_else(|| "it did not answer".to_owned(), |(_, why)| why);
                return Err(Failure::Option(format!("--store {}: {why}", Storage::shown(url))));
            }
            name_undecided(&mut answer, &subjects);
            Ok(answer_line(&answer, &subjects[0], verb, engine.store().now()))
        })
    }
}

/// A token from a file or a variable.
pub(crate) fn token(file: Option<&std::path::Path>, variable: &str) -> Result<Option<Secret>, Failure> {
    match file {
        Some(file) => {
            let unreadable = |cause| Failure::Unreadable { file: file.display().to_string(), cause };
            Secret::from_file(file).map(Some).map_err(unreadable)
        }
        None => Ok(std::env::var(variable).ok().filter(|token| !token.is_empty()).map(Secret::new)),
    }
}

/// Nobody else is waiting, so a store may take its time.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
