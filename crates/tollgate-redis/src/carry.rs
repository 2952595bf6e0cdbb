//! Values that were counted under other rules, and values that are not ours at all.
//!
//! A script that meets a value with another tag changes nothing and hands it over. The rules it was counted under are
//! known here, or written down on the server; the state is carried over as the core does it, and put in place of the
//! value that was found, if that is still there. Then the question is asked again. This happens once per key and change
//! of rules; every other decision is one round trip.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use redis::Value;
use tollgate_core::{
    LeaseId, Micros, Policy, Subject,
    algorithm::{Algorithm, Charge},
    bounds::MAX_WAIT,
    carry_over,
};

use crate::{
    config::OnForeignState,
    definition,
    key::definition_name,
    link::{Call, DEADLINE_BYTES, Whom},
    policies::Version,
    request::Tagged,
    state::{self, Tag},
    store::{Failure, RedisStore},
};

/// A value that cannot be read.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) name: String,
    pub(crate) found: String,
}

impl Version {
    pub(crate) fn tagged(&self) -> Tagged<'_> {
        Tagged { policy: &self.policy, tag: self.tag, times: 1 }
    }
}

impl RedisStore {
    /// Puts a value of today's rules in place of the one that was found.
    pub(crate) async fn carry_over(
        &self,
        version: &Version,
        name: &[u8],
        found: Vec<u8>,
        now: Micros,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let carried = match self.read_under_its_rules(version, &found, now, deadline).await? {
            Some(subject) => subject,
            None => self.instead_of_foreign(version, name, &found, now)?,
        };
        let encoded = state::encode(&version.policy, version.tag, &carried, now);
        let (value, lives) = encoded.unwrap_or_default();
        let (word, until) = match self.inner.config.clock {
            Some(_) => ("PXAT", lives + self.inner.far),
            None => ("PX", lives),
        };
        let args = vec![vec![0; DEADLINE_BYTES], found, value, word.into(), until.to_string().into_bytes()];
        let call = Call { script: &self.inner.replace, keys: &[name], args, deadline };
        // Whether it was still there does not matter: if not, the next answer says what is.
        self.inner.link.call(call).await?;
        Ok(())
    }

    /// The state that a value tells, carried over to today's rules; none if nobody knows how to read it.
    async fn read_under_its_rules(
        &self,
        version: &Version,
        found: &[u8],
        now: Micros,
        deadline: Instant,
    ) -> Result<Option<Subject>, Failure> {
        let Some(tag) = Tag::found_in(found) else { return Ok(None) };
        let Some(old) = self.rules_of(tag, deadline).await? else { return Ok(None) };
        let subject = state::decode(&old, tag, found).map(|(_, subject)| subject);
        Ok(subject.map(|subject| carry_over(&old, &version.policy, subject, version.carry, now)))
    }

    async fn rules_of(&self, tag: Tag, deadline: Instant) -> Result<Option<Arc<Policy>>, Failure> {
        if let Some(known) = self.inner.policies.with_tag(tag) {
            return Ok(Some(known));
        }
        let name = definition_name(&self.inner.config.prefix, tag.fingerprint());
        let command = redis::cmd("GET").arg(&name).to_owned();
        let Value::BulkString(text) = self.inner.link.command(Whom::Key(&name), &command, deadline).await? else {
            return Ok(None);
        };
        let text = String::from_utf8(text).unwrap_or_default();
        if Tag::new(definition::fingerprint(&text)) != tag {
            return Ok(None);
        }
        Ok(definition::read_back(&text).map(|policy| self.inner.policies.learn(tag, policy)))
    }

    fn instead_of_foreign(
        &self,
        version: &Version,
        name: &[u8],
        found: &[u8],
        now: Micros,
    ) -> Result<Subject, Failure> {
        let mut subject = version.policy.fresh();
        match self.inner.config.on_foreign_state {
            OnForeignState::Fail => {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(Failure::NotOurs(Unreadable { name, found: shown(found) }));
            }
            // Left alone, it is counted with each request that meets it; replaced, here.
            OnForeignState::Fresh => self.inner.counters.foreign_states.add_one(),
            OnForeignState::Spent => {
                self.inner.counters.foreign_states.add_one();
                for (rule, state) in version.policy.rules().iter().zip(&mut subject.states) {
                    let everything = Charge { cost: rule.limiting().limit(), at: now, lease: LeaseId(0) };
                    rule.limiting().penalize(state, everything, now);
                }
            }
        }
        Ok(subject)
    }

    /// A list, a set or the like lies there. Nobody writes one by mistake, so it is left alone whatever the settings say.
    pub(crate) fn another_kind(names: &[&[u8]]) -> Failure {
        let name = names.iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>().join("\" or \"");
        Failure::NotOurs(Unreadable { name, found: "a value that is no string".to_owned() })
    }
}

/// The beginning of a value, for people.
fn shown(value: &[u8]) -> String {
    let beginning = &value[..value.len().min(24)];
    let more = if beginning.len() < value.len() { "…" } else { "" };
    format!("{} bytes, beginning with \"{}{more}\"", value.len(), beginning.escape_ascii())
}

/// Writing rules down
impl RedisStore {
    /// Sees to it that others can look up the rules of values we write: when they are first used, now and then, and over
    /// every new connection, since a server that went away may have come back with nothing.
    pub(crate) fn keep_written_down(&self, version: &Version) {
        let millis = u64::try_from(self.inner.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let last = version.written_down.load(Ordering::Relaxed);
        let connections = self.inner.counters.reconnects.get();
        let is_same_connection = version.written_over.load(Ordering::Relaxed) == connections;
        if last != 0 && is_same_connection && millis < last + WRITTEN_DOWN_EVERY {
            return;
        }
        // Whoever sets the time does the writing.
        let next = millis.max(last + 1);
        if version.written_down.compare_exchange(last, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        version.written_over.store(connections, Ordering::Relaxed);
        let name = definition_name(&self.inner.config.prefix, version.tag.fingerprint());
        let lives = (MAX_WAIT.0 + longest_life(&version.policy).0) / 1_000;
        let command = redis::cmd("SET").arg(&name).arg(&version.definition).arg("PX").arg(lives).to_owned();
        let store = self.clone();
        tokio::spawn(async move {
            let deadline = Instant::now() + WRITING_TAKES;
            // If this fails, values of these rules can be read by those who have them: everybody, until they change.
            let _ = store.inner.link.command(Whom::Key(&name), &command, deadline).await;
        });
    }
}

/// About how long a key that has used up everything is remembered.
fn longest_life(policy: &Policy) -> Micros {
    let now = Micros::SECOND;
    let mut subject = policy.fresh();
    for (rule, state) in policy.rules().iter().zip(&mut subject.states) {
        rule.limiting().penalize(state, Charge { cost: rule.limiting().limit(), at: now, lease: LeaseId(0) }, now);
    }
    policy.rests_at(&subject, now)
}

/// In milliseconds. So long at most are rules missing that somebody has deleted.
const WRITTEN_DOWN_EVERY: u64 = 600_000;
const WRITING_TAKES: Duration = Duration::from_secs(5);
