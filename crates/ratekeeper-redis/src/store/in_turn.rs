//! Takes of keys on different nodes of a cluster, which one script cannot access.
//!
//! The keys are charged one after another. If a later one refuses, the earlier ones are refunded. A crash in between
//! leaves permits spent, never granted twice.

use std::{slice, time::Instant};

use ratekeeper_core::{Decision, RequestId, RuleRole, Source, Take, Terms, Verb};

use super::{Failure, RedisStore};
use crate::{key::record_name, ledger::RequestKey, link::Destination};

impl RedisStore {
    /// Charges the keys one after another and refunds them if a later one refuses. Keys whose rules all count refused
    /// requests are charged in any case; if only some of a key's rules do, they count what that key refuses.
    pub(super) async fn take_in_turn(
        &self,
        asks: &[RequestKey<'_>],
        names: &[&[u8]],
        take: &Take,
        terms: &Terms,
        deadline: Instant,
    ) -> Result<Decision, Failure> {
        let (asks, granted) = self.part_in_turn(asks, names, terms, deadline).await?;
        let (asks, terms) = (asks.as_slice(), terms.whole());
        let mut decisions: Vec<Decision> = Vec::new();
        let mut refused_by = None;
        for (index, (ask, name)) in asks.iter().zip(names).enumerate() {
            // After a refusal the others are peeked at, for their numbers, unless they count refused requests.
            let is_peek = refused_by.is_some() && !ask.counts_every_refusal();
            let ask = RequestKey { cost: if is_peek { 0 } else { ask.cost }, ..*ask };
            match self.ask_together(&[ask], slice::from_ref(name), &Verb::Take(*take), &terms, deadline).await {
                Ok(decision) => {
                    if refused_by.is_none() && !decision.is_allowed() {
                        refused_by = Some(index);
                    }
                    decisions.push(decision);
                }
                Err(failure) => {
                    let charged = refused_by.unwrap_or(decisions.len());
                    self.undo(&asks[..charged], &decisions, terms.id).await;
                    return Err(failure);
                }
            }
        }
        if let Some(refused_by) = refused_by {
            self.undo(&asks[..refused_by], &decisions, terms.id).await;
        }
        let decision = Decision::in_turn(&decisions).ok_or(Failure::Strange)?;
        let granted = granted.map(|granted| if decision.is_allowed() { granted } else { 0 });
        let mut charged = asks.iter().zip(&decisions).filter(|(ask, _)| ask.cost > 0).peekable();
        let is_repeated = charged.peek().is_some() && charged.all(|(_, decision)| decision.source == Source::Repeated);
        let decision = decision.with_granted(granted);
        let decision = if is_repeated { decision.repeated() } else { decision };
        // The lease was undone with the charges.
        Ok(if refused_by.is_some() { decision.with_lease(None) } else { decision })
    }

    /// The keys with the costs of a partial grant: the largest that passes now by the numbers of a peek.
    async fn part_in_turn<'a>(
        &self,
        asks: &[RequestKey<'a>],
        names: &[&[u8]],
        terms: &Terms,
        deadline: Instant,
    ) -> Result<(Vec<RequestKey<'a>>, Option<u64>), Failure> {
        let Some(least) = terms.at_least else { return Ok((asks.to_vec(), None)) };
        let most = asks.iter().map(|ask| ask.cost).max().unwrap_or_default();
        let mut passes = most;
        for (ask, name) in asks.iter().zip(names).filter(|(ask, _)| ask.cost > 0) {
            let peeked = self.ask_together(&[*ask], slice::from_ref(name), &Verb::Peek, &Terms::NONE, deadline).await?;
            let enforced = peeked.rules.iter().filter(|rule| !rule.shadow && rule.role == RuleRole::Limit);
            passes = enforced.map(|rule| rule.remaining).fold(passes, u64::min);
        }
        let granted = passes.max(least.min(most));
        let asks = asks.iter().map(|ask| RequestKey { cost: ask.cost.min(granted), ..*ask });
        Ok((asks.collect(), Some(granted)))
    }

    async fn undo(&self, asks: &[RequestKey<'_>], decisions: &[Decision], id: Option<RequestId>) {
        for (ask, decision) in asks.iter().zip(decisions) {
            // What was charged under the id before this request stays charged.
            if ask.cost == 0 || ask.counts_every_refusal() || decision.source == Source::Repeated {
                continue;
            }
            let deadline = Instant::now() + self.inner.config.link.deadline;
            if let Some(id) = id {
                // A refused id is decided anew. While its record exists the permits stay charged.
                let record = record_name(ask.name, id);
                let delete = redis::cmd("DEL").arg(&record).to_owned();
                if self.inner.link.command(Destination::Key(&record), &delete, deadline).await.is_err() {
                    continue;
                }
            }
            let at = decision.proceed_at();
            let undo = Verb::Undo { at, lease: decision.lease };
            // If this fails, the permits stay spent: too few are admitted, never too many.
            let _ = self.ask_together(slice::from_ref(ask), &[ask.name], &undo, &Terms::NONE, deadline).await;
        }
    }
}
