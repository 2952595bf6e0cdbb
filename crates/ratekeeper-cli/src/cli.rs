//! Command line: the commands, and help with examples. The arguments of a command are in its module.

mod concealed;
mod version;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use self::concealed::read;
use crate::{
    check::CheckArgs, conformance::ConformanceCommand, doctor::DoctorArgs, explain::ExplainArgs, health::HealthArgs,
    serve::ServeArgs, simulate::SimulateArgs, top::TopArgs,
};

/// Rate limits: a server that enforces them, and tools to simulate, explain and check them.
#[derive(Debug, Parser)]
#[command(name = "ratekeeper", version, long_version = version::long(), arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "one value per process")]
pub(crate) enum Command {
    /// Run a rate limit server: HTTP, Envoy's rate limit service and RESP over one set of rules.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Ask a running server, or a store, for one decision.
    #[command(after_help = ASK_EXAMPLES)]
    Check(CheckArgs),
    /// Ask whether the server on this machine is ready: exit code 0 if it is, else 1. For health checks of containers.
    #[command(after_help = HEALTH_EXAMPLES)]
    Health(HealthArgs),
    /// Watch a running server: rates by policy, and the keys refused most.
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArgs),
    /// Replay requests from a CSV file against a rule file; the times in the file are the clock.
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(SimulateArgs),
    /// Explain why one request of a CSV file was allowed or refused.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Examine a Redis or Valkey server as a store for limits, and list what to change.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Hold a store or a server to the conformance vectors.
    #[command(subcommand, after_help = CONFORMANCE_EXAMPLES)]
    Conformance(ConformanceCommand),
    /// Write shell completions and manual pages into a directory.
    #[cfg(feature = "assets")]
    #[command(hide = true)]
    Assets {
        /// The directory to write to; it is created.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Check rule files, or print their schema.
    #[command(subcommand)]
    Config(ConfigCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// List every mistake in rule files, with line, column and field.
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// Rule files, or directories of them; `-` alone reads YAML or JSON from standard input.
        #[arg(required = true, value_name = "FILE|DIR")]
        paths: Vec<PathBuf>,
    },
    /// Print the JSON Schema of rule files, for editors.
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
}

const EXAMPLES: &str = "\
Examples:
  ratekeeper serve
      a server on this machine with sample rules; prints commands to try
  ratekeeper check api user:42
      one decision; exit code 1 if it is refused
  ratekeeper simulate --rules rules.yaml --requests requests.csv
      one JSON line per request: verdict, remaining, retry_after
  ratekeeper explain --rules rules.yaml --requests requests.csv --line 4
      why line 4 got its decision, with the arithmetic
  ratekeeper config check rules/
      every mistake in a directory of rule files; exit code 1 if there is one
  ratekeeper doctor redis://127.0.0.1:6379
      whether a Redis is fit as a store, and what to change; exit code 1 if it is not

Exit codes: 0 done, 1 `config check` found mistakes, `doctor` a failure, `check` a refusal, or `health` no ready server, 2 the command or its input cannot be used.";

const SERVE_EXAMPLES: &str = "\
Examples:
  ratekeeper serve
  ratekeeper serve --rules rules/ --store redis://127.0.0.1:6379
  ratekeeper serve --rules api.yaml --http 0.0.0.0:8080 --tls-cert cert.pem --tls-key key.pem --tokens tokens.txt
  ratekeeper serve --grpc off --resp off --admin 9091
  RATEKEEPER_RULES=rules/ RATEKEEPER_HTTP=0.0.0.0:8080 ratekeeper serve

Signals: SIGHUP reloads rules, tokens and certificates (they are also checked twice a second); SIGTERM and SIGINT
stop gracefully; a second one stops at once.";

const ASK_EXAMPLES: &str = "\
Examples:
  ratekeeper check api user:42
  ratekeeper check api user=42 path=/login --cost 2
  ratekeeper check api user:42 --cost 0
  ratekeeper check api --bare-key dGVzdA==
  ratekeeper check api user:42 --server https://limits.internal:8080 --ca ca.pem --token-file token
  ratekeeper check api user:42 --store redis://127.0.0.1:6379 --rules rules/

Exit codes: 0 allowed, 1 refused, 2 no decision.";

const HEALTH_EXAMPLES: &str = "\
Examples:
  ratekeeper health
  ratekeeper health --admin 0.0.0.0:9090
  ratekeeper health --live
  ratekeeper health --url https://limits.internal:9090 --ca ca.pem

Exit codes: 0 ready, 1 not ready, or no answer.";

const TOP_EXAMPLES: &str = "\
Examples:
  ratekeeper top
  ratekeeper top --admin https://10.0.0.7:9090 --ca ca.pem --token-file admin.token --every 5";

const SIMULATE_EXAMPLES: &str = "\
Examples:
  ratekeeper simulate --rules rules.yaml --requests requests.csv --format table
  printf 'at_ms,key,cost\\n0,u,5\\n100,u,30\\n' | ratekeeper simulate --rules rules.yaml --requests -
  ratekeeper simulate --rules rules.yaml --requests requests.csv --policy per-user --plot out.svg
  ratekeeper simulate --rules edge.rules.yaml --requests edge.csv --compare --format table --plot edge.svg
  ratekeeper simulate --rules rules.yaml --requests requests.csv --store redis://127.0.0.1:6379

A requests file:
  at_ms,key,cost,max_wait_ms,op      at_ms: milliseconds, up to 3 decimals, ascending
  10000,u,5,,                        op: take, peek, refund, settle, penalize, reset or release
  10100.5,u,30,250,take              an empty cell takes the default: the policy's cost, no wait, take";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  ratekeeper explain --rules rules.yaml --requests requests.csv --line 4
  ratekeeper explain --rules rules.yaml --requests requests.csv --policy per-user --at-ms 10200 --key u";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  ratekeeper doctor redis://127.0.0.1:6379
  ratekeeper doctor rediss+cluster://app:password@10.0.0.1:6379,10.0.0.2:6379?ca=ca.pem --prefix edge
  ratekeeper doctor redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/mymaster --format json

Nothing is changed but one key per primary, under PREFIX:doctor:, which is deleted again. Passwords are never printed.

Exit codes: 0 nothing fails, 1 something does, 2 the address cannot be used or no server answers there.";

const CONFORMANCE_EXAMPLES: &str = "\
Examples:
  ratekeeper conformance run --against memory
  ratekeeper conformance run --against redis://127.0.0.1:6379
  ratekeeper conformance rules --out rules && ratekeeper serve --rules rules
  ratekeeper conformance run --against http://127.0.0.1:8080
  ratekeeper conformance run --against resp://127.0.0.1:6380

Exit codes: 0 every vector that was run passed, 1 one did not, 2 a vector or the target cannot be used.";

const CHECK_EXAMPLES: &str = "\
Examples:
  ratekeeper config check rules/api.yaml
  ratekeeper config check rules/ more/other.toml
  ratekeeper config check - < rules/api.yaml";

const SCHEMA_EXAMPLES: &str = "\
Example:
  ratekeeper config schema > rules.schema.json";
