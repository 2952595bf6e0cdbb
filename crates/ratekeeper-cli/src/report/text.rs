//! Text for a terminal: untrusted text, escaped and cut. Counts, times and spans are those of `ratekeeper_http::explain`.

pub(crate) use ratekeeper_http::explain::{counted, millis, shown, span};
use ratekeeper_server::lossy_text::Escaped;

/// Untrusted text, escaped for a terminal except for line feeds.
pub(crate) fn escaped_lines(text: &str) -> String {
    text.split('\n').map(|line| Escaped(line).to_string()).collect::<Vec<_>>().join("\n")
}

/// A text cut to a width, with an ellipsis.
pub(crate) fn clipped(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_is_escaped_and_cut() {
        assert_eq!(shown("a\u{1b}[2J"), "\"a\\u{1b}[2J\"");
        assert_eq!(shown(&"x".repeat(50)), format!("\"{}\"…", "x".repeat(40)));
        assert_eq!(clipped("policy", 4), "pol…");
        assert_eq!(escaped_lines("a\u{1b}[2J\nb\u{202e}c"), "a\\u{1b}[2J\nb\\u{202e}c");
    }
}
