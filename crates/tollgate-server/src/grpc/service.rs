//! One call: decode, ask, encode.
//!
//! What is to be taken is decided first, all of it in one atomic step. What is to be given back follows only if that
//! passed: a client that is refused may send the same request again, and nothing must be given back twice. Whether what
//! is refused is counted nevertheless is up to each rule; those in Envoy's form do so.

use std::{error::Error, sync::Arc};

use tollgate_core::Micros;
use tonic::{Code, Request, Response, Status};

use super::{
    decode::{self, Decoded, Share},
    encode,
    metadata::{self, Noted},
    wire::{self, DescriptorStatus, RateLimitRequest, RateLimitResponse, RateLimitService},
};
use crate::{
    engine::{Answer, AskError, Asked, Engine, Question},
    fields::Fields,
    security::Pass,
    wiring::small,
};

/// Answers Envoy by the rules in force.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) engine: Engine,
    pub(super) fields: Arc<Fields>,
}

type Told = Vec<(DescriptorStatus, Noted)>;

#[tonic::async_trait]
impl RateLimitService for Limits {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        // Where tokens are asked for, the door has left the bearer's pass here.
        let pass = request.extensions().get::<Arc<Pass>>();
        if pass.is_some_and(|pass| !pass.covers(&request.get_ref().domain)) {
            return Err(Status::permission_denied("the token is not for this domain"));
        }
        let request = request.into_inner();
        small(self.engine.store(), || self.answer(&request)).await.map(Response::new)
    }
}

impl Limits {
    pub(super) async fn answer(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
        let values = decode::values(request)?;
        let decoded = Decoded::of(request, &values)?;
        let mut response = RateLimitResponse { overall_code: wire::Code::Ok.into(), ..Default::default() };
        let mut told: Told = vec![Default::default(); request.descriptors.len()];
        let mut passes = true;

        let takes = decoded.share(false);
        // A request without descriptors is asked as well, and told what is wrong with it.
        if !takes.subjects.is_empty() || !decoded.gives_back() {
            let answer = self.ask(&request.domain, &takes, Asked::Take { max_wait: Micros::ZERO }).await?;
            passes = answer.is_allowed();
            response.overall_code = encode::code(answer.verdict()).into();
            encode::headers(&answer, &self.fields, &mut response.response_headers_to_add);
            tell(&answer, &takes, &mut told);
        }
        if decoded.gives_back() {
            let backs = decoded.share(true);
            let verb = if passes { Asked::Refund { at: None } } else { Asked::Peek };
            let answer = self.ask(&request.domain, &backs, verb).await?;
            tell(&answer, &backs, &mut told);
            for place in &backs.places {
                told[*place].0.code = wire::Code::Ok.into();
            }
        }
        response.dynamic_metadata = metadata::of(request, &values, &told);
        response.statuses = told.into_iter().map(|(status, _)| status).collect();
        Ok(response)
    }

    async fn ask(&self, domain: &str, share: &Share<'_>, verb: Asked) -> Result<Answer, Status> {
        self.engine.ask(&Question { domain, subjects: &share.subjects, verb }).await.map_err(refusal)
    }
}

/// Puts each subject's status at its place.
fn tell(answer: &Answer, share: &Share<'_>, told: &mut Told) {
    for (subject, place) in answer.subjects.iter().zip(&share.places) {
        let noted = Noted {
            quota_mode: subject.quota_mode,
            violated: subject.quota_mode && subject.over_limit,
            fields: subject.metadata.clone().map(|fields| (fields, !subject.over_limit)),
        };
        told[*place] = (encode::status(answer, subject), noted);
    }
}

/// Being over the limit is none of these; they say that nothing could be decided.
fn refusal(error: AskError) -> Status {
    let mut status = match &error {
        error if error.is_callers_fault() => Status::invalid_argument(error.to_string()),
        AskError::Store(error) if error.is_transient() => Status::unavailable(error.to_string()),
        error => Status::internal(error.to_string()),
    };
    status.set_source(Arc::new(error));
    status
}

/// Whether a call failed for what its message says. `INTERNAL` is also what a message gets that cannot be read.
pub(super) fn is_callers_fault(status: &Status) -> bool {
    let told_by_engine = status.source().is_some_and(|source| source.is::<AskError>());
    match status.code() {
        Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented => true,
        Code::Internal => !told_by_engine,
        _ => false,
    }
}
