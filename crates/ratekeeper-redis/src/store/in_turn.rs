//! Takes of keys on different nodes of a cluster, which one script cannot access.
//!
//! The keys are charged one after another. If a later one refuses, the earlier ones are refunded. A crash in between
//! leaves permits spent, never granted twice.

use std::{slice, time::Instant};

use ratekeeper_core::{Decision, Take, Verb};

use super::{Failure, RedisStore};
use crate::ledger::RequestKey;

impl RedisStore {
    /// Charges the keys one after another and refunds them if a later one refuses. Keys whose rules all count refused
    /// requests are charged in any case; if only some of a key's rules do, they count what that key refuses.
    pub(super) async fn take_in_turn(
        &self,
        asks: &[RequestKey<'_>],
        names: &[&[u8]],
        take: &Take,
        deadline: Instant,
    ) -> Result<Decision, Failure> {
        let mut decisions: Vec<Decision> = Vec::new();
        let mut refused_by = None;
        for (index, (ask, name)) in asks.iter().zip(names).enumerate() {
            // After a refusal the others are peeked at, for their numbers, unless they count refused requests.
            let is_peek = refused_by.is_some() && !ask.counts_every_refusal();
            let ask = RequestKey { cost: if is_peek { 0 } else { ask.cost }, ..*ask };
            match self.ask_together(&[ask], slice::from_ref(name), &Verb::Take(*take), deadline).await {
                Ok(decision) => {
                    if refused_by.is_none() && !decision.is_allowed() {
                        refused_by = Some(index);
                    }
                    decisions.push(decision);
                }
                Err(failure) => {
                    let charged = refused_by.unwrap_or(decisions.len());
                    self.undo(&asks[..charged], &decisions).await;
                    return Err(failure);
                }
            }
        }
        if let Some(refused_by) = refused_by {
            self.undo(&asks[..refused_by], &decisions).await;
        }
        let decision = Decision::in_turn(&decisions).ok_or(Failure::Strange)?;
        // The lease was undone with the charges.
        Ok(if refused_by.is_some() { decision.with_lease(None) } else { decision })
    }

    async fn undo(&self, asks: &[RequestKey<'_>], decisions: &[Decision]) {
        for (ask, decision) in asks.iter().zip(decisions) {
            if ask.cost == 0 || ask.counts_every_refusal() {
                continue;
            }
            let at = decision.proceed_at();
            let undo = Verb::Undo { at, lease: decision.lease };
            let deadline = Instant::now() + self.inner.config.link.deadline;
            // If this fails, the permits stay spent: too few are admitted, never too many.
            let _ = self.ask_together(slice::from_ref(ask), &[ask.name], &undo, deadline).await;
        }
    }
}
