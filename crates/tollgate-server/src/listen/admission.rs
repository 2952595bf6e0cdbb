//! Admission: charges a request to its connection's account before anything is decided for it, and its answer after.
//!
//! A refusal has no body: its headers pass whatever window the peer grants, so nothing is kept for it.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Incoming},
    header::{HeaderMap, HeaderValue, RETRY_AFTER},
};

use super::{
    account::{Account, Charge, NoRoom, REQUEST_BYTES},
    bodies::{Answer, Received},
};

impl Account {
    /// Charges a request whose head has come, and everything that will come of it.
    pub(crate) fn admit(&self, request: Request<Incoming>) -> Result<(Request<Received>, Charge), NoRoom> {
        let charge = self.charge(REQUEST_BYTES + unusual_bytes(request.headers()))?;
        Ok((request.map(|body| Received::new(body, self.clone())), charge))
    }

    /// The answer to a request that was not admitted; it should have no body.
    pub(crate) fn refuse<B>(&self, answer: Response<B>) -> Response<Answer<B>> {
        self.charge_anyway(0).answer_anyway(answer)
    }
}

impl Charge {
    /// Charges an answer whose length is known, and keeps the charge until it is sent.
    pub(crate) fn answer<B: Body>(self, answer: Response<B>) -> Result<Response<Answer<B>>, NoRoom> {
        // The usual ones are part of the charge already.
        if let Some(bytes) = answer.body().size_hint().exact().filter(|bytes| *bytes > REQUEST_BYTES as u64) {
            // They are charged piece by piece, so it is enough to see that there is room.
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            drop(self.account().charge(bytes)?);
        }
        Ok(self.answer_anyway(answer))
    }

    /// The same for an answer that is short, or comes in pieces which are charged one by one.
    pub(crate) fn answer_anyway<B>(self, answer: Response<B>) -> Response<Answer<B>> {
        answer.map(|body| Answer::new(body, self))
    }
}

/// What HTTP answers where there is no room.
pub(super) fn refusal() -> Response<Full<Bytes>> {
    let mut refusal = Response::new(Full::default());
    *refusal.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    refusal.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    refusal
}

/// Header fields beyond the usual ones, as HTTP/2 counts them (RFC 9113, section 10.5.1).
fn unusual_bytes(headers: &HeaderMap) -> usize {
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES);
    fields.sum::<usize>().saturating_sub(USUAL_HEADER_BYTES)
}

const FIELD_BYTES: usize = 32;
const USUAL_HEADER_BYTES: usize = 1 << 10;
