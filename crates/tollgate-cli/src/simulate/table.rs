//! The same answers in columns for people, written as they come: widths are fixed, and what does not fit juts out.

use std::io::{self, Write};

use tollgate_core::{DecidedBy, Decision, Policy, Verdict};
use tollgate_server::text::is_hidden;

use super::{cells::told_millis, requests::Request};
use crate::report;

/// Writes answers as a table.
pub(crate) struct Table<W> {
    out: W,
    names: Vec<String>,
    headed: bool,
}

impl<W: Write> Table<W> {
    pub(crate) fn new(out: W, policy: &Policy) -> Self {
        let names = policy.rules().iter().map(|rule| rule.name().to_owned()).collect();
        Self { out, names, headed: false }
    }

    pub(crate) fn write(&mut self, request: &Request<'_>, decision: &Decision) -> io::Result<()> {
        self.head()?;
        let answer = match decision.verdict {
            Verdict::Allow { wait } if wait.0 == 0 => "allow".to_owned(),
            Verdict::Allow { wait } => format!("allow, wait {}", report::span(wait)),
            Verdict::Deny { retry_after } => format!("deny, retry in {}", report::span(retry_after)),
            Verdict::Never => "never".to_owned(),
        };
        let decider = match decision.decided_by {
            DecidedBy::Rule(index) => self.names.get(index).map_or("", String::as_str),
            DecidedBy::Block => "block",
            DecidedBy::Nothing => "",
        };
        writeln!(
            self.out,
            "{:>16}  {}  {:<8}  {:>8}  {answer:<24}  {:>17}  {decider}",
            told_millis(request.at),
            fitted(request.key, KEY_WIDTH),
            request.op.name(),
            request.cost,
            format!("{} of {}", decision.remaining(), decision.limit()),
        )
    }

    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.head()?;
        self.out.flush()
    }

    fn head(&mut self) -> io::Result<()> {
        if self.headed {
            return Ok(());
        }
        self.headed = true;
        writeln!(
            self.out,
            "{:>16}  {:<KEY_WIDTH$}  {:<8}  {:>8}  {:<24}  {:>17}  decided by",
            "at ms", "key", "op", "cost", "answer", "remaining"
        )
    }
}

/// A key in its column: control and format characters cannot move or reorder anything, and a long one shows its beginning and end.
fn fitted(key: &str, width: usize) -> String {
    let visible = |letter: char| if is_hidden(letter) { '\u{fffd}' } else { letter };
    let letters: Vec<char> = key.chars().map(visible).collect();
    if letters.len() <= width {
        let text: String = letters.into_iter().collect();
        return format!("{text:<width$}");
    }
    let (head, tail) = (width / 2, width - width / 2 - 1);
    let start = letters.iter().take(head);
    start.chain(&['…']).chain(letters.iter().skip(letters.len() - tail)).collect()
}

const KEY_WIDTH: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_fit_their_column() {
        assert_eq!(fitted("u", 5), "u    ");
        assert_eq!(fitted("abcdefghij", 5), "ab…ij");
        assert_eq!(fitted("a\u{1b}[2J", 6), "a\u{fffd}[2J ");
        assert_eq!(fitted("a\u{202e}b", 6), "a\u{fffd}b   ");
    }
}
