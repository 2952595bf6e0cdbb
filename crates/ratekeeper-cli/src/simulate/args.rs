//! Flags of `ratekeeper simulate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// The rule file (.yaml, .yml, .toml or .json).
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: PathBuf,
    /// The requests: CSV with a header; `-` reads standard input. Columns: at_ms, key, and optionally cost,
    /// max_wait_ms and op; or entry:NAME columns instead of key, which the rule file matches as a server does.
    #[arg(long, alias = "traffic", value_name = "FILE|-")]
    pub(crate) requests: PathBuf,
    /// Which policy of the rule file; needed if it has several.
    #[arg(long, value_name = "NAME", conflicts_with = "compare")]
    pub(crate) policy: Option<String>,
    /// The store: `memory`, or the address of a Redis or Valkey, where keys have a prefix of this run and are deleted at the
    /// end. The times in the file are the clock in either case.
    #[arg(long, value_name = "memory|redis://…", default_value = "memory")]
    pub(crate) store: String,
    /// Output format: one JSON object per request, or a table.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Write an SVG plot of permits granted and refused, and of each rule's window.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Run every policy of the rule file on the same requests, and compare them.
    #[arg(long)]
    pub(crate) compare: bool,
    /// Print the totals on standard error when done; a table always does.
    #[arg(long)]
    pub(crate) summary: bool,
    /// Memory for keys and their states, in MiB, with the store `memory`.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) budget: u32,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON object per line.
    #[default]
    Jsonl,
    /// Aligned columns.
    Table,
}
