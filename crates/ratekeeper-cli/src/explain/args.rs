//! Flags of `ratekeeper explain`.

use std::path::PathBuf;

use clap::Args;

use crate::{
    argument::{prefix, whole},
    web::{Endpoint, TlsArgs},
};

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The rule file; with --store, files and directories.
    #[arg(long, value_name = "FILE", conflicts_with = "server", required_unless_present = "server")]
    pub(crate) rules: Vec<PathBuf>,
    /// The requests, as for `simulate`; a file, because it is read twice.
    #[arg(
        long,
        alias = "traffic",
        value_name = "FILE",
        required_unless_present_any = ["server", "store"],
        conflicts_with_all = ["server", "store"]
    )]
    pub(crate) requests: Option<PathBuf>,
    /// Which policy of the rule file; needed if it has several.
    #[arg(long, value_name = "NAME", requires = "requests")]
    pub(crate) policy: Option<String>,
    /// The request in this line of the file; the header is line 1.
    #[arg(long, value_name = "N", requires = "requests", conflicts_with_all = ["at_ms", "key"])]
    pub(crate) line: Option<u64>,
    /// The first request at this time, with --key.
    #[arg(long, value_name = "T", requires_all = ["key", "requests"])]
    pub(crate) at_ms: Option<String>,
    /// The key: of the request, with --at-ms, or the one to look up.
    #[arg(long, value_name = "K", conflicts_with = "entries", allow_hyphen_values = true)]
    pub(crate) key: Option<String>,
    /// Explains the next request of a key of a running server: the address of its admin port.
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    pub(crate) server: Option<Endpoint>,
    /// The same by the state in a store, and the rules of --rules.
    #[arg(long, value_name = "redis://…")]
    pub(crate) store: Option<String>,
    /// The domain of the key; not needed if the rules have one only.
    #[arg(long, value_name = "NAME", conflicts_with = "requests")]
    pub(crate) domain: Option<String>,
    /// A descriptor entry; repeated for several.
    #[arg(long = "entry", value_name = "NAME=VALUE", conflicts_with = "requests")]
    pub(crate) entries: Vec<String>,
    /// Permits of the next request; the default is the policy's cost.
    #[arg(long, conflicts_with = "requests", value_parser = whole)]
    pub(crate) cost: Option<u64>,
    /// Prefix of key names, for --store.
    #[arg(long, value_name = "PREFIX", default_value = "ratekeeper", requires = "store", value_parser = prefix)]
    pub(crate) prefix: String,
    /// Token of the admin port: the first line of a file, or the variable RATEKEEPER_ADMIN_TOKEN.
    #[arg(long, env = "RATEKEEPER_ADMIN_TOKEN_FILE", value_name = "FILE", conflicts_with_all = ["requests", "store"])]
    pub(crate) token_file: Option<PathBuf>,
    /// For https:// addresses: certificate authority of the server, as PEM. The default is the system's trust store.
    #[arg(long, env = "RATEKEEPER_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The client certificate, for servers that require one.
    #[arg(long, env = "RATEKEEPER_CERT", value_name = "FILE", requires = "cert_key")]
    cert: Option<PathBuf>,
    /// Its private key; `--key` of other commands.
    #[arg(long, env = "RATEKEEPER_KEY", value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
}

impl ExplainArgs {
    /// TLS settings of the connection to the server.
    pub(crate) fn tls(&self) -> TlsArgs {
        TlsArgs::new(self.ca.clone(), self.cert.clone(), self.cert_key.clone())
    }
}
