//! Flags of `ratekeeper explain`.

use std::path::PathBuf;

use clap::Args;

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
    /// The key of the request, with --at-ms.
    #[arg(long, value_name = "K", requires = "at_ms")]
    pub(crate) key: Option<String>,
}
