//! One request on its way through the gate: asked, then served or turned away.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use pin_project_lite::pin_project;
use tollgate_core::{Decision, StoreError};
use tower_service::Service;

use crate::{
    answer::Refused,
    body::ResponseBody,
    gate::Gate,
    layer::{Settings, Undecided},
    place::{Keep, Place},
};

/// What was decided about a key.
pub(crate) struct Outcome {
    pub(crate) key: String,
    pub(crate) decision: Result<Decision, StoreError>,
}

type Deciding = Pin<Box<dyn Future<Output = Outcome> + Send>>;

pin_project! {
    /// The response to come, or a refusal.
    pub struct ResponseFuture<S, G, B>
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
        Deciding { deciding: Deciding, request: Option<(S, Parts, B)> },
        Serving { #[pin] future: F, told: Option<Told> },
        Refused { response: Option<Response<Bytes>> },
    }
}

/// What an admitted request takes along.
struct Told {
    decision: Decision,
    place: Option<Box<dyn Keep>>,
}

impl<S, G, B> ResponseFuture<S, G, B>
where
    S: Service<Request<B>>,
    G: Gate,
{
    pub(crate) fn deciding(deciding: Deciding, request: (S, Parts, B), settings: Arc<Settings<G>>) -> Self {
        Self { state: State::Deciding { deciding, request: Some(request) }, settings }
    }

    pub(crate) fn uncounted(future: S::Future, settings: Arc<Settings<G>>) -> Self {
        Self { state: State::Serving { future, told: None }, settings }
    }

    pub(crate) fn refused(refused: &Refused<'_>, head: &Parts, settings: Arc<Settings<G>>) -> Self {
        let response = Some(answer(&settings, refused, head));
        Self { state: State::Refused { response }, settings }
    }
}

impl<S, G, B, R> Future for ResponseFuture<S, G, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    G: Gate,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProj::Deciding { deciding, request } => {
                    let Outcome { key, decision } = ready!(deciding.as_mut().poll(cx));
                    // Taken once: the state changes below.
                    let Some((mut inner, head, body)) = request.take() else { return Poll::Pending };
                    match admit(this.settings, &key, decision, &head) {
                        Admission::Serve(told) => {
                            State::Serving { future: inner.call(Request::from_parts(head, body)), told }
                        }
                        Admission::Refuse(response) => State::Refused { response: Some(response) },
                    }
                }
                StateProj::Serving { future, told } => {
                    let response = ready!(future.poll(cx));
                    let told = told.take();
                    return Poll::Ready(response.map(|response| dress(this.settings, response, told)));
                }
                StateProj::Refused { response } => {
                    // A future is not polled again once it is done; if it is, it has nothing more to say.
                    let Some(response) = response.take() else { return Poll::Pending };
                    return Poll::Ready(Ok(response.map(ResponseBody::refused)));
                }
            };
            this.state.set(next);
        }
    }
}

/// What becomes of a request: what it takes along, or what it hears.
enum Admission {
    Serve(Option<Told>),
    Refuse(Response<Bytes>),
}

fn admit<G: Gate>(
    settings: &Settings<G>,
    key: &str,
    decision: Result<Decision, StoreError>,
    head: &Parts,
) -> Admission {
    match decision {
        Ok(decision) if decision.is_allowed() => {
            let place = Place::of(&decision, &settings.gate, key).map(|place| Box::new(place) as Box<dyn Keep>);
            Admission::Serve(Some(Told { decision, place }))
        }
        Ok(decision) => {
            let fields = settings.fields();
            let mut response = answer(settings, &Refused::Limited { decision: &decision, fields: &fields }, head);
            fields.insert_into(&decision, response.headers_mut());
            Admission::Refuse(response)
        }
        Err(_) if settings.undecided == Undecided::Pass => Admission::Serve(None),
        Err(error) => Admission::Refuse(answer(settings, &Refused::Undecided(&error), head)),
    }
}

fn answer<G>(settings: &Settings<G>, refused: &Refused<'_>, head: &Parts) -> Response<Bytes> {
    match &settings.answer {
        Some(answer) => answer(refused, head),
        None => refused.answer(head),
    }
}

/// The service's response, with the fields of the decision, holding the place if there is one.
fn dress<G: Gate, R>(
    settings: &Settings<G>,
    mut response: Response<R>,
    told: Option<Told>,
) -> Response<ResponseBody<R>> {
    let place = told.and_then(|Told { decision, place }| {
        settings.fields().insert_into(&decision, response.headers_mut());
        place
    });
    response.map(|body| ResponseBody::served(body, place))
}
