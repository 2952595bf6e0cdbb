//! Parsers of argument values that several commands have. Each error has a remedy.

/// Parses a whole number.
pub(crate) fn whole(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| "write a whole number in digits, 0 or more".to_owned())
}

/// Parses a prefix of key names.
pub(crate) fn prefix(word: &str) -> Result<String, String> {
    if word.is_empty() {
        return Err("empty, so keys would have no name before the colon; use a name such as ratekeeper".to_owned());
    }
    Ok(word.to_owned())
}
