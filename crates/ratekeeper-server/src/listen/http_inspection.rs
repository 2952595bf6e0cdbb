//! HTTP inspection: bytes of a connection before hyper and h2 parse them.
//!
//! - HTTP/2 control frames are charged to a budget ([`FrameBudget`]); bytes sent refill it.
//! - HTTP/1 header blocks are searched for bare line feeds ([`BareLfScanner`]).
//! - A connection that is closed for abuse ends with GOAWAY if the peer speaks HTTP/2, else with an error.

use std::{
    io,
    task::{Context, Poll},
};

use tokio::io::ReadBuf;

use super::{
    account::Account, bare_lf::BareLfScanner, closed_connections::CloseReason, frame_budget::FrameBudget,
    header_timeout::HeaderTimeout, read_gate::ReadGate, request_counts::RequestCounts,
};

/// The inspection of one connection.
#[derive(Debug)]
pub(super) struct HttpInspection {
    pub(super) gate: ReadGate,
    pub(super) header_timeout: Option<HeaderTimeout>,
    account: Account,
    requests: RequestCounts,
    protocol: DetectedProtocol,
    /// Passed to h2 instead of the peer's bytes, so that it sends GOAWAY.
    goaway: Option<io::Cursor<Vec<u8>>>,
}

#[derive(Debug)]
enum DetectedProtocol {
    /// So many bytes of the HTTP/2 preface were received.
    Unknown(usize),
    Http1(BareLfScanner),
    Http2(FrameBudget),
}

impl HttpInspection {
    pub(super) fn new(account: Account, requests: RequestCounts, header_timeout: Option<HeaderTimeout>) -> Self {
        Self {
            gate: ReadGate::new(account.clone()),
            header_timeout,
            account,
            requests,
            protocol: DetectedProtocol::Unknown(0),
            goaway: None,
        }
    }

    /// Ready with the number of bytes that may be read now.
    pub(super) fn poll_gate(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        self.gate.poll_read(matches!(self.protocol, DetectedProtocol::Http2(_)), cx)
    }

    /// Whether the header block that is being read has exceeded its time limit.
    pub(super) fn is_header_late(&mut self, cx: &mut Context<'_>) -> bool {
        self.header_timeout.as_mut().is_some_and(|timeout| timeout.poll_expired(cx).is_ready())
    }

    /// Whether the connection is to be closed for abuse.
    pub(super) fn is_closing(&self) -> bool {
        self.account.close_reason().is_some()
    }

    /// Inspects the bytes received. Returns how many of them may be parsed.
    pub(super) fn received(&mut self, bytes: &[u8]) -> usize {
        if let Some(timeout) = &mut self.header_timeout {
            timeout.received();
        }
        let preface = self.match_preface(bytes);
        match &mut self.protocol {
            DetectedProtocol::Unknown(_) => {}
            DetectedProtocol::Http1(scanner) => {
                if let Some(number) = scanner.scan(bytes) {
                    self.requests.mark_bare_lf(number);
                }
            }
            DetectedProtocol::Http2(budget) => {
                if let Some(allowed) = budget.scan(&bytes[preface..]) {
                    self.account.close(CloseReason::ControlFrames);
                    return preface + allowed;
                }
            }
        }
        bytes.len()
    }

    /// Bytes were written to the socket, or could not be.
    pub(super) fn written(&mut self, result: &Poll<io::Result<usize>>) {
        self.gate.written(result.is_ready());
        if let (DetectedProtocol::Http2(budget), Poll::Ready(Ok(count))) = (&mut self.protocol, result) {
            budget.sent(*count);
        }
    }

    /// The end of a connection that is closed for abuse, as far as it fits into `buf`.
    pub(super) fn read_end(&mut self, buf: &mut ReadBuf<'_>) -> io::Result<()> {
        let aborted = || Err(io::ErrorKind::ConnectionAborted.into());
        let DetectedProtocol::Http2(budget) = &self.protocol else { return aborted() };
        let goaway = match &mut self.goaway {
            Some(goaway) => goaway,
            None if budget.is_between_frames() => self.goaway.insert(io::Cursor::new(budget.goaway_trigger())),
            None => return aborted(),
        };
        let count = io::Read::read(goaway, buf.initialize_unfilled())?;
        buf.advance(count);
        if count == 0 { aborted() } else { Ok(()) }
    }

    /// Compares the first bytes of a connection with the preface of HTTP/2. Returns how many of `bytes` belong to it.
    fn match_preface(&mut self, bytes: &[u8]) -> usize {
        let DetectedProtocol::Unknown(seen) = &mut self.protocol else { return 0 };
        let (before, expected) = PREFACE.split_at(*seen);
        let count = bytes.len().min(expected.len());
        if bytes[..count] != expected[..count] {
            let mut scanner = BareLfScanner::new();
            scanner.scan(before);
            self.protocol = DetectedProtocol::Http1(scanner);
            return 0;
        }
        *seen += count;
        if *seen == PREFACE.len() {
            self.protocol = DetectedProtocol::Http2(FrameBudget::new());
        }
        count
    }
}

/// RFC 9113, section 3.4.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
