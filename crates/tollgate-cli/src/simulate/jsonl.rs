//! One JSON object per request: the contract of `tollgate simulate`.
//!
//! Written by hand, because millions of lines are; the field order is part of the contract, and what never changes from
//! line to line is put together once.

use std::io::{self, Write};

use tollgate_core::{Decision, Policy};
use tollgate_server::line::{push, push_decision, push_field, push_millis, push_text, push_word};

use super::requests::Request;

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
        line.push(b',');
        push_decision(line, decision, |line, index| push(line, self.names.get(index).map_or(b"null", Vec::as_slice)));
        push(line, b"}\n");
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

/// How much is written at once.
const PAGE_BYTES: usize = 64 * 1024;
