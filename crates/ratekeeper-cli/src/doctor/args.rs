//! Flags of `ratekeeper doctor`.

use clap::{Args, ValueEnum};

use crate::argument::prefix;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Address of the server: redis://, redis+sentinel:// or redis+cluster://, or the same with rediss for TLS.
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Prefix of key names.
    #[arg(long, value_name = "PREFIX", default_value = "ratekeeper", value_parser = prefix)]
    pub(crate) prefix: String,
    /// Output format: text, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: DoctorFormat,
}

/// Output format of findings.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum DoctorFormat {
    /// One line per finding, with the change below it.
    #[default]
    Text,
    /// One JSON object.
    Json,
}
