//! Admission to a server: extracts the key, asks the limiter, and refuses or admits the request.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, request::Parts};
use ratekeeper_core::{Decision, StoreError, bounds::MAX_KEY_BYTES};

use crate::{
    limiter::RateLimiter,
    permit::{HeldPermit, hold, undo},
    refusal::Refusal,
    settings::{OnMissingKey, OnStoreError, Settings},
};

/// The decision about a served request, and the permit it holds under a concurrency rule.
pub(crate) struct Admitted {
    pub(crate) decision: Decision,
    pub(crate) permit: Option<Box<dyn HeldPermit>>,
}

/// The head of the request with its decision (`None` if it passes uncounted), or the response that refuses it.
pub(crate) async fn admit<L: RateLimiter>(
    settings: Arc<Settings<L>>,
    head: Parts,
) -> Result<(Parts, Option<Admitted>), Response<Bytes>> {
    let key = match (settings.key.key(&head), &settings.on_missing_key) {
        (Some(key), _) => key,
        (None, OnMissingKey::CountAs(key)) => key.clone(),
        (None, OnMissingKey::Pass) => return Ok((head, None)),
        (None, OnMissingKey::Refuse) => return Err(settings.refuse(&Refusal::NoKey, &head)),
    };
    if key.len() > MAX_KEY_BYTES {
        return Err(settings.refuse(&Refusal::KeyTooLong { found: key.len() }, &head));
    }
    let cost = settings.cost.as_ref().map_or(1, |cost| cost(&head));
    match check(&settings.limiter, &key, cost).await {
        Ok(decision) if decision.is_allowed() => {
            let permit = hold(&decision, &settings.limiter, &key, Some(&settings.hold_times));
            Ok((head, Some(Admitted { decision, permit })))
        }
        Ok(decision) => {
            let fields = settings.fields();
            let estimated_wait = settings.hold_times.estimated_wait(&settings.limiter.policy(), &decision, cost);
            let refusal = Refusal::Limited { decision: &decision, fields: &fields, estimated_wait };
            let mut response = settings.refuse(&refusal, &head);
            fields.insert_into_with(&decision, estimated_wait, response.headers_mut());
            Err(response)
        }
        Err(_) if settings.on_store_error == OnStoreError::Pass => Ok((head, None)),
        Err(error) => Err(settings.refuse(&Refusal::Undecided(&error), &head)),
    }
}

/// Asks the limiter, and sleeps for the wait of a shaped rule.
async fn check<L: RateLimiter>(limiter: &L, key: &str, cost: u64) -> Result<Decision, StoreError> {
    let decision = limiter.check(key, cost).await?;
    if !decision.wait().is_zero() {
        let mut reservation = UndoOnDrop { limiter, key, cost, decision: &decision, used: false };
        tokio::time::sleep(decision.wait()).await;
        reservation.used = true;
    }
    Ok(decision)
}

/// Refunds a reservation if the client disconnects during the wait.
struct UndoOnDrop<'a, L: RateLimiter> {
    limiter: &'a L,
    key: &'a str,
    cost: u64,
    decision: &'a Decision,
    used: bool,
}

impl<L: RateLimiter> Drop for UndoOnDrop<'_, L> {
    fn drop(&mut self) {
        if !self.used {
            undo(self.decision, self.limiter, self.key, self.cost);
        }
    }
}
