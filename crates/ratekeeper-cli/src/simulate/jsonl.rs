//! JSON Lines output: one object per request, the contract of `ratekeeper simulate`.
//!
//! Lines are serialized by `ratekeeper-http`, which the server uses as well; names of rules are formatted once.

use std::io::{self, Write};

use ratekeeper_core::{Decision, Policy, Source};
use ratekeeper_http::{
    decision_json::{push_decision, push_request},
    json::{push, push_field, push_string},
};

use super::requests::RequestLine;

/// Writes decisions as JSON lines.
pub(crate) struct JsonlWriter<W> {
    out: W,
    /// Lines not yet written.
    buffer: Vec<u8>,
    /// The names of the rules, as JSON strings.
    names: Vec<Vec<u8>>,
}

impl<W: Write> JsonlWriter<W> {
    pub(crate) fn new(out: W, policy: &Policy) -> Self {
        let name = |name: &str| {
            let mut text = Vec::new();
            push_string(&mut text, name);
            text
        };
        let names = policy.rules().iter().map(|rule| name(rule.name())).collect();
        Self { out, buffer: Vec::with_capacity(BUFFER_BYTES + 4 * 1024), names }
    }

    pub(crate) fn write(&mut self, request: &RequestLine<'_>, decision: &Decision) -> io::Result<()> {
        let line = &mut self.buffer;
        push_request(line, request.at, request.key, request.cost, request.verb.name());
        push_decision(line, decision, |line, index| push(line, self.names.get(index).map_or(b"null", Vec::as_slice)));
        if let Some(granted) = decision.granted {
            push_field(line, b",\"granted\":", granted);
        }
        if decision.source == Source::Repeated {
            push(line, b",\"repeated\":true");
        }
        push(line, b"}\n");
        if line.len() >= BUFFER_BYTES { self.write_buffer() } else { Ok(()) }
    }

    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.write_buffer()?;
        self.out.flush()
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.buffer);
        self.buffer.clear();
        written
    }
}

/// Bytes per write.
const BUFFER_BYTES: usize = 64 * 1024;
