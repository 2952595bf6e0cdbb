//! Build information: the version of the program and the commit it was built from.

/// The version of this crate, which all crates of the workspace share.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that the program was built from: the variable `RATEKEEPER_COMMIT` at compile time. `None` in other builds,
/// such as those of `cargo install`.
pub const COMMIT: Option<&str> = option_env!("RATEKEEPER_COMMIT");
