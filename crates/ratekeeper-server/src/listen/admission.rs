//! Admission: charges a request to its connection's account before anything is decided for it, and then its response.
//!
//! A refusal has no body: header fields need no flow-control window, so the server keeps nothing for it.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Incoming},
    header::{HeaderMap, HeaderValue, RETRY_AFTER},
};

use super::{
    account::{Account, Charge, OutOfBudget, PendingRefusal, REQUEST_BYTES},
    charged_body::{ChargedRequestBody, ChargedResponseBody},
};

impl Account {
    /// Charges a request whose header block is complete.
    pub(crate) fn admit(
        &self,
        request: Request<Incoming>,
    ) -> Result<(Request<ChargedRequestBody>, Charge), PendingRefusal> {
        match self.charge(REQUEST_BYTES + excess_header_bytes(request.headers())) {
            Ok(charge) => Ok((request.map(|body| ChargedRequestBody::new(body, self.clone())), charge)),
            Err(OutOfBudget) => Err(self.refusal()),
        }
    }

    /// The response to a request that was not admitted; it should have no body.
    pub(crate) fn refuse<B>(&self, response: Response<B>) -> Response<ChargedResponseBody<B>> {
        self.charge_unchecked(0).attach(response)
    }
}

impl Charge {
    /// Keeps the charge until the response is sent. Fails if a body of known length does not fit into the budget.
    pub(crate) fn attach_checked<B: Body>(
        self,
        response: Response<B>,
    ) -> Result<Response<ChargedResponseBody<B>>, OutOfBudget> {
        // A shorter body is part of the request's charge.
        if let Some(bytes) = response.body().size_hint().exact().filter(|bytes| *bytes > REQUEST_BYTES as u64) {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            // Its chunks are charged one by one; this only checks that they fit.
            drop(self.account().charge(bytes)?);
        }
        Ok(self.attach(response))
    }

    /// Keeps the charge until a response is sent that is short, or whose chunks are charged one by one.
    pub(crate) fn attach<B>(self, response: Response<B>) -> Response<ChargedResponseBody<B>> {
        response.map(|body| ChargedResponseBody::new(body, self))
    }
}

/// The HTTP response to a request that exceeds the budget.
pub(super) fn refusal_response() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Header bytes beyond those that the charge of a request includes, as HTTP/2 counts them (RFC 9113, section 10.5.1).
fn excess_header_bytes(headers: &HeaderMap) -> usize {
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES);
    fields.sum::<usize>().saturating_sub(USUAL_HEADER_BYTES)
}

const FIELD_BYTES: usize = 32;
const USUAL_HEADER_BYTES: usize = 1 << 10;
