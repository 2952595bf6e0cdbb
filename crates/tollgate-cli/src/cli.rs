//! What can be typed: commands, their options, and help that teaches by example.

mod concealed;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::concealed::read;
use crate::{check::CheckArgs, serve::ServeArgs, top::TopArgs};

/// Rate limits: a server to enforce them, and ways to try them before they meet anybody.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them")]
pub(crate) enum Command {
    /// Limit for everybody: HTTP, Envoy's protocol and RESP in front of one set of rules.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Ask a running server, or a store, whether one request may go.
    #[command(after_help = ASK_EXAMPLES)]
    Check(CheckArgs),
    /// Watch a running server: rates by policy, and the keys refused most.
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArgs),
    /// Replay requests from a CSV file against a rule file; the times in the file are the clock.
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(SimulateArgs),
    /// Tell in plain words why one request of a CSV file was let through or refused.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Examine a Redis or Valkey that is to keep limits, and say what to change.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Look after rule files.
    #[command(subcommand)]
    Config(ConfigCommand),
}

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// The rule file (.yaml, .yml, .toml or .json).
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: PathBuf,
    /// The requests: CSV with a header; `-` reads standard input. Columns: at_ms, key, and optionally cost,
    /// max_wait_ms and op.
    #[arg(long, alias = "traffic", value_name = "FILE|-")]
    pub(crate) requests: PathBuf,
    /// Which policy of the rule file; needed if it has several.
    #[arg(long, value_name = "NAME", conflicts_with = "compare")]
    pub(crate) policy: Option<String>,
    /// Where keys are kept: `memory`, or the address of a Redis or Valkey; there, under a prefix of this run's own, which
    /// is cleaned up at the end. The times in the file are the clock wherever they are kept.
    #[arg(long, value_name = "memory|redis://…", default_value = "memory")]
    pub(crate) store: String,
    /// One JSON object per request, or a table for people.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Draw what went, what was refused and how full each rule's window was, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Run every policy of the rule file on the same requests, and set them side by side.
    #[arg(long)]
    pub(crate) compare: bool,
    /// Tell the totals on standard error when done; a table always does.
    #[arg(long)]
    pub(crate) summary: bool,
    /// Memory for keys and their states, in MiB, if they are kept in memory.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) budget: u32,
}

/// How answers are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON object per line.
    #[default]
    Jsonl,
    /// Aligned columns.
    Table,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The rule file.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: PathBuf,
    /// The requests, as for `simulate`; a file, because it is read twice.
    #[arg(long, alias = "traffic", value_name = "FILE")]
    pub(crate) requests: PathBuf,
    /// Which policy of the rule file; needed if it has several.
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// The request in this line of the file; the header is line 1.
    #[arg(long, value_name = "N", required_unless_present = "at_ms", conflicts_with_all = ["at_ms", "key"])]
    pub(crate) line: Option<u64>,
    /// The first request at this time, with --key.
    #[arg(long, value_name = "T", requires = "key")]
    pub(crate) at_ms: Option<String>,
    /// Whose request, with --at-ms.
    #[arg(long, value_name = "K", requires = "at_ms")]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Where it is: redis://, redis+sentinel:// or redis+cluster://, or the same with rediss for TLS.
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// What the names of keys begin with.
    #[arg(long, value_name = "PREFIX", default_value = "tollgate", value_parser = prefix)]
    pub(crate) prefix: String,
    /// A page for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: DoctorFormat,
}

/// How findings are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum DoctorFormat {
    /// One line for each, with what to change below it.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Find every mistake in rule files, with its line, column and field.
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

/// A whole number, with a way out for who wrote another.
pub(crate) fn whole(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| "write a whole number in digits, 0 or more".to_owned())
}

/// What the names of keys begin with.
pub(crate) fn prefix(word: &str) -> Result<String, String> {
    if word.is_empty() {
        return Err("empty, so keys would have no name before the colon; use a word such as tollgate".to_owned());
    }
    Ok(word.to_owned())
}

const EXAMPLES: &str = "\
Examples:
  tollgate serve
      a server on this machine with sample rules; it tells what to try next
  tollgate check api user:42
      whether one request may go; exit code 1 if not
  tollgate simulate --rules rules.yaml --requests requests.csv
      one JSON line per request: passed or not, what remains, when to come back
  tollgate explain --rules rules.yaml --requests requests.csv --line 4
      why line 4 got its answer, with the arithmetic
  tollgate config check rules/
      every mistake in a directory of rule files; exit code 1 if there is one
  tollgate doctor redis://127.0.0.1:6379
      whether a Redis is fit to keep limits, and what to change; exit code 1 if it is not

Exit codes: 0 done, 1 `config check` found mistakes, `doctor` a failure, or `check` a refusal, 2 the command or its input cannot be used.";

const SERVE_EXAMPLES: &str = "\
Examples:
  tollgate serve
  tollgate serve --rules rules/ --store redis://127.0.0.1:6379
  tollgate serve --rules api.yaml --http 0.0.0.0:8080 --tls-cert cert.pem --tls-key key.pem --tokens tokens.txt
  tollgate serve --grpc off --resp off --admin 9091
  TOLLGATE_RULES=rules/ TOLLGATE_HTTP=0.0.0.0:8080 tollgate serve

Signals: SIGHUP reads rules, tokens and certificates again (they are also looked at twice a second); SIGTERM and SIGINT
finish what is under way and end; a second one ends at once.";

const ASK_EXAMPLES: &str = "\
Examples:
  tollgate check api user:42
  tollgate check api user=42 path=/login --cost 2
  tollgate check api user:42 --cost 0
  tollgate check api --bare-key dGVzdA==
  tollgate check api user:42 --server https://limits.internal:8080 --ca ca.pem --token-file token
  tollgate check api user:42 --store redis://127.0.0.1:6379 --rules rules/

Exit codes: 0 allowed, 1 refused, 2 nobody could say.";

const TOP_EXAMPLES: &str = "\
Examples:
  tollgate top
  tollgate top --admin https://10.0.0.7:9090 --ca ca.pem --token-file admin.token --every 5";

const SIMULATE_EXAMPLES: &str = "\
Examples:
  tollgate simulate --rules rules.yaml --requests requests.csv --format table
  printf 'at_ms,key,cost\\n0,u,5\\n100,u,30\\n' | tollgate simulate --rules rules.yaml --requests -
  tollgate simulate --rules rules.yaml --requests requests.csv --policy per-user --plot out.svg
  tollgate simulate --rules edge.rules.yaml --requests edge.csv --compare --format table --plot edge.svg
  tollgate simulate --rules rules.yaml --requests requests.csv --store redis://127.0.0.1:6379

A requests file:
  at_ms,key,cost,max_wait_ms,op      at_ms: milliseconds, up to 3 decimals, ascending
  10000,u,5,,                        op: take, peek, refund, settle, penalize, reset or release
  10100.5,u,30,250,take              an empty cell takes the default: the policy's cost, no wait, take";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  tollgate explain --rules rules.yaml --requests requests.csv --line 4
  tollgate explain --rules rules.yaml --requests requests.csv --policy per-user --at-ms 10200 --key u";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  tollgate doctor redis://127.0.0.1:6379
  tollgate doctor rediss+cluster://app:password@10.0.0.1:6379,10.0.0.2:6379?ca=ca.pem --prefix edge
  tollgate doctor redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/mymaster --format json

Nothing is changed but one key per primary, under PREFIX:doctor:, which is deleted again. Passwords are never printed.

Exit codes: 0 nothing fails, 1 something does, 2 the address cannot be used or nobody answers there.";

const CHECK_EXAMPLES: &str = "\
Examples:
  tollgate config check rules/api.yaml
  tollgate config check rules/ more/other.toml
  tollgate config check - < rules/api.yaml";

const SCHEMA_EXAMPLES: &str = "\
Example:
  tollgate config schema > rules.schema.json";
