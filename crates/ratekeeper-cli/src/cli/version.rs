//! Output of `--version`: the version, commit, features and target of this program. `-V` prints the version alone.

use std::sync::LazyLock;

use ratekeeper_server::build_info::{COMMIT, VERSION};

/// Without the name of the program, which clap prints before it.
pub(super) fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let features: Vec<&str> = FEATURES.into_iter().filter_map(|(name, on)| on.then_some(name)).collect();
        let features = if features.is_empty() { "none".to_owned() } else { features.join(" ") };
        let commit = COMMIT.unwrap_or("unknown");
        format!(
            "{VERSION}\ncommit: {commit}\nfeatures: {features}\ntarget: {}-{}-{}",
            std::env::consts::ARCH,
            std::env::consts::OS,
            LIBC
        )
    });
    &TEXT
}

const FEATURES: [(&str, bool); 3] =
    [("assets", cfg!(feature = "assets")), ("jemalloc", cfg!(feature = "jemalloc")), ("otel", cfg!(feature = "otel"))];
const LIBC: &str = if cfg!(target_env = "musl") {
    "musl"
} else if cfg!(target_env = "gnu") {
    "gnu"
} else {
    "other"
};
