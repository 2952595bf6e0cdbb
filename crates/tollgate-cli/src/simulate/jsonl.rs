//! One JSON object per request: the contract of `tollgate simulate`.
//!
//! Written by hand, because millions of lines are; the field order is part of the contract, and what never changes from
//! line to line is put together once.

use std::io::{self, Write};

use tollgate_core::{DecidedBy, Decision, Micros, Policy, RuleDecision};

use super::{
    cells::{push_millis, push_number},
    requests::Request,
};

/// Writes answers as JSON lines.
pub(crate) struct Jsonl<W> {
    out: W,
    /// Lines not yet written.
    page: Vec<u8>,
    /// Each rule's name, as JSON.
    names: Vec<Vec<u8>>,
}

impl<W: Write> Jsonl<W> {
    pub(crate) fn new(out: W, policy: &Policy) -> Self {
        let name = |name: &str| {
            let mut text = Vec::new();
            push_text(&mut text, name);
            text
        };
        let names = policy.rules().iter().map(|rule| name(rule.name())).collect();
        Self { out, page: Vec::with_capacity(PAGE_BYTES + 4 * 1024), names }
    }

    pub(crate) fn write(&mut self, request: &Request<'_>, decision: &Decision) -> io::Result<()> {
        let line = &mut self.page;
        push(line, b"{\"at_ms\":");
        push_millis(line, request.at);
        push(line, b",\"key\":");
        push_text(line, request.key);
        push_field(line, b",\"cost\":", request.cost);
        push_word(line, b",\"op\":\"", request.op.name());
        push_word(line, b",\"verdict\":\"", decision.verdict.name());
        push_field(line, b",\"wait_us\":", decision.wait().0);
        push_retry(line, decision.retry_after());
        push_field(line, b",\"remaining\":", decision.remaining());
        push_field(line, b",\"limit\":", decision.limit());
        push_field(line, b",\"reset_after_us\":", decision.reset_after().0);
        push(line, b",\"decided_by\":");
        push(line, decider(decision.decided_by, &self.names));
        push(line, b",\"rules\":[");
        for (index, (rule, name)) in decision.rules.iter().zip(&self.names).enumerate() {
            if index > 0 {
                line.push(b',');
            }
            push_rule(line, rule, name);
        }
        push(line, b"]}\n");
        if line.len() >= PAGE_BYTES { self.turn_page() } else { Ok(()) }
    }

    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.turn_page()?;
        self.out.flush()
    }

    fn turn_page(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.page);
        self.page.clear();
        written
    }
}

fn decider(decided_by: DecidedBy, names: &[Vec<u8>]) -> &[u8] {
    match decided_by {
        DecidedBy::Rule(index) => names.get(index).map_or(b"null", Vec::as_slice),
        DecidedBy::Block => b"\"block\"",
        DecidedBy::Nothing => b"null",
    }
}

#[inline]
fn push_rule(line: &mut Vec<u8>, rule: &RuleDecision, name: &[u8]) {
    push(line, b"{\"name\":");
    push(line, name);
    push_word(line, b",\"verdict\":\"", rule.verdict.name());
    push_field(line, b",\"remaining\":", rule.remaining);
    push_field(line, b",\"limit\":", rule.limit);
    push_retry(line, rule.verdict.retry_after());
    push_field(line, b",\"reset_after_us\":", rule.reset_after.0);
    push(line, if rule.shadow { b",\"shadow\":true}" } else { b"}" });
}

#[inline]
fn push(line: &mut Vec<u8>, bytes: &[u8]) {
    line.extend_from_slice(bytes);
}

#[inline]
fn push_field(line: &mut Vec<u8>, field: &[u8], number: u64) {
    push(line, field);
    push_number(line, number);
}

/// The field brings the opening quote; words of ours need no escapes.
#[inline]
fn push_word(line: &mut Vec<u8>, field: &[u8], word: &str) {
    push(line, field);
    push(line, word.as_bytes());
    line.push(b'"');
}

#[inline]
fn push_retry(line: &mut Vec<u8>, retry_after: Option<Micros>) {
    match retry_after {
        Some(wait) => push_field(line, b",\"retry_after_us\":", wait.0),
        None => push(line, b",\"retry_after_us\":null"),
    }
}

/// Text as a JSON string.
fn push_text(line: &mut Vec<u8>, text: &str) {
    line.push(b'"');
    if text.bytes().any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        for byte in text.bytes() {
            match byte {
                b'"' | b'\\' => push(line, &[b'\\', byte]),
                b'\n' => push(line, b"\\n"),
                b'\r' => push(line, b"\\r"),
                b'\t' => push(line, b"\\t"),
                0..0x20 => push(line, format!("\\u{byte:04x}").as_bytes()),
                _ => line.push(byte),
            }
        }
    } else {
        push(line, text.as_bytes());
    }
    line.push(b'"');
}

/// How much is written at once.
const PAGE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a key holds, a JSON reader gets it back.
    #[test]
    fn text_survives_a_json_reader() {
        let mut every_ascii: String = (0..128u8).map(char::from).collect();
        every_ascii.push_str("žluťoučký 🦀 \u{2028}");
        let mut line = Vec::new();
        push_text(&mut line, &every_ascii);
        let back: String = serde_json::from_slice(&line).unwrap_or_default();
        assert_eq!(back, every_ascii);
    }
}
