//! `ShouldRateLimit` handler: decodes the request, asks the engine, encodes the response.
//!
//! All takes are decided first, in one atomic step. Refunds follow only if the takes are allowed: a denied client may
//! retry the same request, and must not be refunded twice. Whether a denied take is counted depends on the rule; rules
//! in Envoy format count it.

use std::{error::Error, sync::Arc};

use ratekeeper_core::{Take, Verb};
use tonic::{Code, Request, Response, Status};

use super::{
    decode::{self, Decoded, DescriptorGroup},
    encode,
    metadata::{self, DescriptorNotes},
    wire::{self, DescriptorStatus, RateLimitRequest, RateLimitResponse, RateLimitService},
};
use crate::{
    engine::{Answer, Engine},
    header_cache::HeaderCache,
    request::{Request as EngineRequest, RequestError},
    security::Pass,
    wiring::small,
};

/// The rate limit service, backed by the engine.
#[derive(Clone, Debug)]
pub(super) struct RateLimitHandler {
    pub(super) engine: Engine,
    pub(super) fields: Arc<HeaderCache>,
}

type Statuses = Vec<(DescriptorStatus, DescriptorNotes)>;

#[tonic::async_trait]
impl RateLimitService for RateLimitHandler {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        // Set by the router if tokens are configured.
        let pass = request.extensions().get::<Arc<Pass>>();
        if pass.is_some_and(|pass| !pass.covers(&request.get_ref().domain)) {
            return Err(Status::permission_denied("the token is not for this domain"));
        }
        let request = request.into_inner();
        small(self.engine.store(), || self.answer(&request)).await.map(Response::new)
    }
}

impl RateLimitHandler {
    pub(super) async fn answer(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
        let values = decode::values(request)?;
        let decoded = Decoded::of(request, &values)?;
        let mut response = RateLimitResponse { overall_code: wire::Code::Ok.into(), ..Default::default() };
        let mut statuses: Statuses = vec![Default::default(); request.descriptors.len()];
        let mut passes = true;

        let takes = decoded.group(false);
        // A request without descriptors goes to the engine as well, which reports the error.
        if !takes.subjects.is_empty() || !decoded.has_refunds() {
            let answer = self.decide(&request.domain, &takes, Verb::Take(Take::now())).await?;
            passes = answer.is_allowed();
            response.overall_code = encode::code(answer.verdict()).into();
            encode::headers(&answer, &self.fields, &mut response.response_headers_to_add);
            set_statuses(&answer, &takes, &mut statuses);
        }
        if decoded.has_refunds() {
            let refunds = decoded.group(true);
            let verb = if passes { Verb::Refund { at: None } } else { Verb::Peek };
            let answer = self.decide(&request.domain, &refunds, verb).await?;
            set_statuses(&answer, &refunds, &mut statuses);
            for position in &refunds.positions {
                statuses[*position].0.code = wire::Code::Ok.into();
            }
        }
        response.dynamic_metadata = metadata::of(request, &values, &statuses);
        response.statuses = statuses.into_iter().map(|(status, _)| status).collect();
        Ok(response)
    }

    async fn decide(&self, domain: &str, group: &DescriptorGroup<'_>, verb: Verb) -> Result<Answer, Status> {
        self.engine.decide(&EngineRequest { domain, subjects: &group.subjects, verb }).await.map_err(refusal)
    }
}

/// Stores the status of each subject at its position in the request.
fn set_statuses(answer: &Answer, group: &DescriptorGroup<'_>, statuses: &mut Statuses) {
    for policies in answer.subjects.chunk_by(|a, b| a.subject == b.subject) {
        // Descriptors with notes are in the Envoy format, where one limit counts them.
        let [subject, ..] = policies else { continue };
        let Some(position) = group.positions.get(subject.subject) else { continue };
        let noted = DescriptorNotes {
            quota_mode: subject.quota_mode,
            violated: subject.quota_mode && subject.over_limit,
            fields: subject.metadata.clone().map(|fields| (fields, !subject.over_limit)),
        };
        statuses[*position] = (encode::status(answer, policies), noted);
    }
}

/// The status of a request that could not be decided. Exceeding a limit is not an error.
fn refusal(error: RequestError) -> Status {
    let mut status = match &error {
        error if error.is_client_error() => Status::invalid_argument(error.to_string()),
        RequestError::Store(error) if error.is_transient() => Status::unavailable(error.to_string()),
        error => Status::internal(error.to_string()),
    };
    status.set_source(Arc::new(error));
    status
}

/// Whether the client's message caused the failure. `INTERNAL` counts unless it comes from the engine: tonic reports
/// undecodable messages with it.
pub(super) fn is_client_error(status: &Status) -> bool {
    let is_from_engine = status.source().is_some_and(|source| source.is::<RequestError>());
    match status.code() {
        Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented => true,
        Code::Internal => !is_from_engine,
        _ => false,
    }
}
