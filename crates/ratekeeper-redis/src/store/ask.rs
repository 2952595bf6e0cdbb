//! One decision of the server: script call, reply, and migration of state written under other rules.

use std::time::Instant;

use ratekeeper_core::{Decision, RequestId, Span, Terms, Timestamp, Verb, Verdict};
use redis::Value;
use smallvec::SmallVec;

use super::{Failure, RedisStore};
use crate::{
    key::record_name,
    ledger::RequestKey,
    link::{Call, CallError, Script},
    policies::Scripts,
    reply::{self, Reply},
    request::{self, Tagged},
};

impl RedisStore {
    /// Decides one key, or a take of several.
    pub(super) async fn ask(
        &self,
        asks: &[RequestKey<'_>],
        verb: &Verb,
        terms: &Terms,
        deadline: Instant,
    ) -> Result<Decision, Failure> {
        let names: SmallVec<[&[u8]; 1]> = asks.iter().map(|ask| ask.name).collect();
        match (asks, verb) {
            ([_, _, ..], Verb::Take(take))
                if asks.len() > MAX_KEYS_PER_SCRIPT || !self.inner.link.share_a_slot(&names) =>
            {
                self.take_in_turn(asks, &names, take, terms, deadline).await
            }
            _ => self.ask_together(asks, &names, verb, terms, deadline).await,
        }
    }

    /// Decides keys that share a slot, with one script. Calls it again only after a migration, or after the server's clock
    /// was set.
    pub(super) async fn ask_together(
        &self,
        asks: &[RequestKey<'_>],
        names: &[&[u8]],
        verb: &Verb,
        terms: &Terms,
        deadline: Instant,
    ) -> Result<Decision, Failure> {
        let inner = &*self.inner;
        let combined;
        let scripts: &Scripts = match asks {
            [one] => &one.version.scripts,
            _ => {
                let shapes = asks.iter().flat_map(|ask| ask.version.scripts.shape.clone());
                combined = inner.policies.scripts(shapes.collect());
                &combined
            }
        };
        let here = self.now_here();
        let mut subjects: SmallVec<[Tagged<'_>; 1]> =
            asks.iter().map(|ask| ask.version.tagged().cost(ask.cost).at(here)).collect();
        for _ in 0..MAX_MIGRATIONS + asks.len() {
            let value = self.call(scripts, &subjects, names, verb, terms, deadline).await?;
            let reply = match verb {
                Verb::Take(take) if !terms.is_none() => reply::to_take_with_terms(&subjects, take, &value),
                Verb::Take(take) => reply::to_take(&subjects, take, &value),
                verb if verb.finishes().is_some() => reply::to_finish(subjects[0].policy, &value),
                other => reply::to_amend(subjects[0].policy, other, &value),
            };
            match reply {
                Reply::Decided(decision) => {
                    for ask in asks {
                        self.ensure_definition(ask.version);
                    }
                    return Ok(decision);
                }
                // The script did nothing. If the deadline has not passed by our clock, the server's clock was set; the
                // reply has updated the estimate.
                Reply::Late if Instant::now() < deadline => {}
                Reply::Late => return Err(Failure::Late),
                Reply::NotOurs { subject, value, now } => {
                    let (ask, name) = asks.get(subject).zip(names.get(subject)).ok_or(Failure::Strange)?;
                    self.migrate_state(ask.version, name, value, now, deadline).await?;
                }
                Reply::UnknownId => return Err(Failure::UnknownId),
                Reply::RepeatedUnread => {
                    let peeked = self.ask_together(&asks[..1], &names[..1], &Verb::Peek, &Terms::NONE, deadline);
                    let peeked = Box::pin(peeked).await?;
                    let decided_by = peeked.decided_by;
                    return Ok(peeked.with_verdict(Verdict::Allow { wait: Span::ZERO }, decided_by).repeated());
                }
                Reply::OtherTime(now) => subjects.iter_mut().for_each(|subject| subject.now = now),
                Reply::Strange => return Err(Failure::Strange),
            }
        }
        Err(Failure::Late)
    }

    async fn call(
        &self,
        scripts: &Scripts,
        subjects: &[Tagged<'_>],
        names: &[&[u8]],
        verb: &Verb,
        terms: &Terms,
        deadline: Instant,
    ) -> Result<Value, Failure> {
        self.inner.counters.single_calls.add_one();
        let (script, numbers) = match verb {
            Verb::Take(take) if !terms.is_none() => {
                let numbers = request::take_with_terms(&scripts.shape, subjects, take, terms);
                let records = terms.id.map(|id| record_names(names, id)).unwrap_or_default();
                let names: Vec<&[u8]> = names.iter().copied().chain(records.iter().map(Vec::as_slice)).collect();
                return self.call_script(scripts.take_with_terms(), subjects, &names, numbers, deadline).await;
            }
            Verb::Commit { id, .. } | Verb::Cancel { id } | Verb::Expire { id } => {
                let numbers = request::amend(&scripts.shape, subjects[0], verb);
                let record = record_name(names[0], *id);
                return self.call_script(scripts.finish(), subjects, &[names[0], &record], numbers, deadline).await;
            }
            Verb::Take(take) => (&scripts.take, request::take(&scripts.shape, subjects, take)),
            other => (&scripts.amend, request::amend(&scripts.shape, subjects[0], other)),
        };
        self.call_script(script, subjects, names, numbers, deadline).await
    }

    /// Calls a script with these numbers; under a manual clock, also with its time and the expiry base.
    pub(super) async fn call_script(
        &self,
        script: &Script,
        subjects: &[Tagged<'_>],
        names: &[&[u8]],
        numbers: Vec<u8>,
        deadline: Instant,
    ) -> Result<Value, Failure> {
        let mut args = vec![numbers];
        if let Some(clock) = &self.inner.config.clock {
            args.push(clock.now().as_micros().to_string().into_bytes());
            args.push(self.inner.expiry_base.to_string().into_bytes());
        }
        let called = self.inner.link.call(Call { script, keys: names, args, deadline }).await;
        called.map_err(|error| match error {
            CallError::Refused { code, .. } if code == "WRONGTYPE" => self.wrong_type(subjects, names),
            error => error.into(),
        })
    }

    /// The estimate of the server's time, or the time of the manual clock.
    pub(super) fn now_here(&self) -> Timestamp {
        match &self.inner.config.clock {
            Some(clock) => clock.now(),
            None => self.inner.link.server_now(),
        }
    }
}

fn record_names(names: &[&[u8]], id: RequestId) -> Vec<Vec<u8>> {
    names.iter().map(|name| record_name(name, id)).collect()
}

/// Keys in one script. Its text grows with each of them, and the server runs nothing else meanwhile.
const MAX_KEYS_PER_SCRIPT: usize = 64;
/// Migrations of one key per request. While two releases with different rules share a key, each migrates the value of
/// the other: about every second attempt on a quiet machine, more often on a busy one. The deadline may end it sooner.
pub(super) const MAX_MIGRATIONS: usize = 64;
