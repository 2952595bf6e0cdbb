//! One request on its way out: waiting, then sent; and what its answer asks of everybody else.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::SystemTime,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tollgate_core::{Decision, Micros, Verb, bounds::MAX_WAIT};
use tower_service::Service;

use super::{
    layer::{PoliteError, Settings},
    retry_after::retry_after,
};
use crate::{
    body::ResponseBody,
    gate::{Gate, TurnError},
    place::{Keep, Place},
};

type Waiting = Pin<Box<dyn Future<Output = Result<Turn, TurnError>> + Send>>;

pin_project! {
    /// The response to come, once it is this request's turn.
    pub struct PoliteFuture<S, G, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future>,
        settings: Arc<Settings<G>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, B, F> {
        Waiting { waiting: Waiting, request: Option<(S, Request<B>)> },
        Sent { #[pin] future: F, turn: Option<Turn> },
    }
}

/// A turn that has come, and the place that goes with it under a concurrency rule.
pub(super) struct Turn {
    key: String,
    decision: Decision,
    place: Option<Box<dyn Keep>>,
}

impl Turn {
    pub(super) fn new<G: Gate>(key: String, decision: Decision, gate: &G) -> Self {
        let place = Place::of(&decision, gate, &key).map(|place| Box::new(place) as Box<dyn Keep>);
        Self { key, decision, place }
    }

    /// It will not be used after all: the permits go back, unless somebody has been promised a place behind them.
    pub(super) fn give_back<G: Gate>(self, gate: &G, cost: u64) {
        let at = self.decision.decided_at + self.decision.wait();
        gate.tell(&self.key, Verb::Undo { cost, at, lease: self.decision.lease });
    }
}

impl<S, G, B> PoliteFuture<S, G, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn waiting(waiting: Waiting, inner: S, request: Request<B>, settings: Arc<Settings<G>>) -> Self {
        Self { state: State::Waiting { waiting, request: Some((inner, request)) }, settings }
    }
}

impl<S, G, B, R> Future for PoliteFuture<S, G, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    G: Gate,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<R>>, PoliteError<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProj::Waiting { waiting, request } => {
                    let turn = ready!(waiting.as_mut().poll(cx)).map_err(PoliteError::NoTurn)?;
                    // Taken once: the state changes below.
                    let Some((mut inner, request)) = request.take() else { return Poll::Pending };
                    State::Sent { future: inner.call(request), turn: Some(turn) }
                }
                StateProj::Sent { future, turn } => {
                    let response = ready!(future.poll(cx)).map_err(PoliteError::Client)?;
                    let place = turn.take().and_then(|turn| {
                        obey(this.settings, &turn.key, &response);
                        turn.place
                    });
                    return Poll::Ready(Ok(response.map(|body| ResponseBody::served(body, place))));
                }
            };
            this.state.set(next);
        }
    }
}

/// If the peer asks for quiet, nobody sends under this key until it has passed.
fn obey<G: Gate, R>(settings: &Settings<G>, key: &str, response: &Response<R>) {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return;
    }
    let Some(quiet) = retry_after(response.headers(), SystemTime::now()) else { return };
    let quiet = quiet.min(settings.longest_hold);
    let Some(until) = Instant::now().checked_add(quiet).filter(|_| !quiet.is_zero()) else { return };
    settings.holds.hold(key, until);
    settings.gate.tell(key, Verb::Block { span: Micros::from_duration(quiet).min(MAX_WAIT) });
}
