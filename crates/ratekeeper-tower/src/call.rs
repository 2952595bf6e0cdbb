//! The future that both layers share: awaits admission, then calls the inner service.
//!
//! ```text
//! Admitting ──admitted──▶ Calling ──response──▶ Done
//!     └───────refused────────────────────────────┘
//! ```
//!
//! Admission is boxed, because the future of a store call cannot be named; the future of the service is not. Dropping the
//! call drops whichever of the two is pending.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{Request, request::Parts};
use pin_project_lite::pin_project;
use tower_service::Service;

/// Decides about a request: its head again with what the response needs, or why it is refused.
pub(crate) type Admission<A, R> = Pin<Box<dyn Future<Output = Result<(Parts, A), R>> + Send>>;

pin_project! {
    /// A call of the inner service that begins when its request is admitted.
    pub(crate) struct AdmittedCall<S, B, A, R>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: CallState<S, B, S::Future, A, R>,
    }
}

pin_project! {
    #[project = CallStatePinned]
    #[project_replace = CallStateOwned]
    enum CallState<S, B, F, A, R> {
        Admitting { admission: Admission<A, R>, service: S, body: B },
        Calling { #[pin] future: F, admitted: A },
        Done,
    }
}

/// Why a call has no response of the service.
pub(crate) enum NotServed<R, E> {
    /// Not admitted; the service was not called.
    Refused(R),
    /// The service failed.
    Failed(E),
}

impl<S, B, A, R> AdmittedCall<S, B, A, R>
where
    S: Service<Request<B>>,
{
    pub(crate) fn new(admission: Admission<A, R>, service: S, body: B) -> Self {
        Self { state: CallState::Admitting { admission, service, body } }
    }
}

impl<S, B, A, R> Future for AdmittedCall<S, B, A, R>
where
    S: Service<Request<B>>,
{
    type Output = Result<(S::Response, A), NotServed<R, S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                CallStatePinned::Admitting { admission, .. } => {
                    let decided = ready!(admission.as_mut().poll(cx));
                    let before = state.as_mut().project_replace(CallState::Done);
                    let CallStateOwned::Admitting { mut service, body, .. } = before else { return Poll::Pending };
                    match decided {
                        Ok((head, admitted)) => {
                            let future = service.call(Request::from_parts(head, body));
                            state.set(CallState::Calling { future, admitted });
                        }
                        Err(refused) => return Poll::Ready(Err(NotServed::Refused(refused))),
                    }
                }
                CallStatePinned::Calling { future, .. } => {
                    let served = ready!(future.poll(cx));
                    let before = state.as_mut().project_replace(CallState::Done);
                    let CallStateOwned::Calling { admitted, .. } = before else { return Poll::Pending };
                    return Poll::Ready(served.map(|response| (response, admitted)).map_err(NotServed::Failed));
                }
                // Polled again after completion.
                CallStatePinned::Done => return Poll::Pending,
            }
        }
    }
}

/// Takes the service that was polled ready and leaves a clone, which is not ready, in its place.
pub(crate) fn take_ready<S: Clone>(service: &mut S) -> S {
    let clone = service.clone();
    std::mem::replace(service, clone)
}
