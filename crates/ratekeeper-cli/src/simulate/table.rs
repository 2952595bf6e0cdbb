//! Table output: fixed column widths, one row per decision as it is made; a wider value shifts its row.

use std::io::{self, Write};

use ratekeeper_core::{DecidedBy, Decision, Policy, Verdict};
use ratekeeper_server::lossy_text::is_hidden;

use super::requests::RequestLine;
use crate::report;

/// Writes decisions as a table.
pub(crate) struct TableWriter<W> {
    out: W,
    names: Vec<String>,
    has_header: bool,
}

impl<W: Write> TableWriter<W> {
    pub(crate) fn new(out: W, policy: &Policy) -> Self {
        let names = policy.rules().iter().map(|rule| rule.name().to_owned()).collect();
        Self { out, names, has_header: false }
    }

    pub(crate) fn write(&mut self, request: &RequestLine<'_>, decision: &Decision) -> io::Result<()> {
        self.write_header()?;
        let verdict = match decision.verdict {
            Verdict::Allow { wait } if wait.as_micros() == 0 => "allow".to_owned(),
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
            "{:>16}  {}  {:<8}  {:>8}  {verdict:<24}  {:>17}  {decider}",
            report::millis(request.at),
            fitted(request.key, KEY_WIDTH),
            request.verb.name(),
            request.cost,
            format!("{} of {}", decision.remaining(), decision.limit()),
        )
    }

    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.write_header()?;
        self.out.flush()
    }

    fn write_header(&mut self) -> io::Result<()> {
        if self.has_header {
            return Ok(());
        }
        self.has_header = true;
        writeln!(
            self.out,
            "{:>16}  {:<KEY_WIDTH$}  {:<8}  {:>8}  {:<24}  {:>17}  decided by",
            "at ms", "key", "op", "cost", "decision", "remaining"
        )
    }
}

/// A key cut to its column: control and format characters are replaced, and a long key shows its start and end.
fn fitted(key: &str, width: usize) -> String {
    let printable = |letter: char| if is_hidden(letter) { '\u{fffd}' } else { letter };
    let letters: Vec<char> = key.chars().map(printable).collect();
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
