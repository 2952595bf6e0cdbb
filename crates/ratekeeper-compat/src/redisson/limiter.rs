//! A limiter shared with Java, with one method for each of `RRateLimiter`'s.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use redis::{Value, cmd};

use super::{
    attempt::Attempt,
    client::SharedClient,
    client_id::ClientId,
    error::{RateError, RedissonError},
    keys::Keys,
    rate::Rate,
    reply::AcquireOutcome,
    wait_queue::WaitQueue,
};

/// A named limiter in Redis, the same for Rust and for Java. Cheap to clone; clones share one wait queue.
#[derive(Clone, Debug)]
pub struct RedissonLimiter {
    client: Arc<SharedClient>,
    keys: Arc<Keys>,
    queue: Arc<WaitQueue>,
}

/// Whether permits taken under the old rate still count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Taken {
    /// They still count, within the new interval.
    Kept,
    /// They are deleted; all permits are free.
    Forgotten,
}

/// The remaining TTL of a limiter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lifetime {
    /// The limiter does not exist.
    Absent,
    /// It does not expire.
    Endless,
    /// It expires after this time, unless that is extended.
    Left(Duration),
}

impl RedissonLimiter {
    pub(super) fn new(client: Arc<SharedClient>, name: &str) -> Self {
        let keys = Keys::new(&client.config.mapped(name), &client.client_id);
        Self { client, keys: Arc::new(keys), queue: Arc::default() }
    }

    /// Its name on the server, as mapped.
    pub fn name(&self) -> &str {
        self.keys.name()
    }

    /// The id of this client, for rates per client.
    pub fn client_id(&self) -> &ClientId {
        &self.client.client_id
    }
}

/// Rate
impl RedissonLimiter {
    /// Sets the rate unless there is one. `false` if there was.
    pub async fn try_set_rate(&self, rate: &Rate) -> Result<bool, RedissonError> {
        let keys = self.keys.all();
        self.client.call_once(&self.client.scripts.try_set_rate, &keys[..1], rate.words()).await?.yes(&self.keys)
    }

    /// Sets the rate in any case. With a rate per client, [`Taken::Forgotten`] concerns this client only: the ids of the
    /// others are not known.
    pub async fn set_rate(&self, rate: &Rate, taken: Taken) -> Result<(), RedissonError> {
        self.put_rate(rate, taken, false).await.map(drop)
    }

    /// Replaces the rate. `false`, without a write, if none is set or it has expired.
    pub async fn update_rate(&self, rate: &Rate, taken: Taken) -> Result<bool, RedissonError> {
        self.put_rate(rate, taken, true).await
    }

    /// The rate; `None` if it is not set.
    pub async fn config(&self) -> Result<Option<Rate>, RedissonError> {
        let command = cmd("HMGET").arg(self.name()).arg(&["rate", "interval", "type", "keepAliveTime"]).to_owned();
        let Value::Array(fields) = self.client.command(&self.keys, &command).await? else { return Ok(None) };
        let field = |at: usize| match fields.get(at) {
            Some(Value::BulkString(text)) => Some(text.as_slice()),
            _ => None,
        };
        let (Some(permits), Some(interval), Some(kind)) = (field(0), field(1), field(2)) else { return Ok(None) };
        let rate = Rate::read(permits, interval, kind, field(3));
        rate.map(Some).ok_or_else(|| RedissonError::DamagedConfig {
            name: self.name().to_owned(),
            found: format!("rate `{}`, interval `{}`", permits.escape_ascii(), interval.escape_ascii()),
        })
    }

    async fn put_rate(&self, rate: &Rate, taken: Taken, only_if_there: bool) -> Result<bool, RedissonError> {
        self.check_slots()?;
        let flag = |is_on: bool| if is_on { b"1".to_vec() } else { b"0".to_vec() };
        let flags = [flag(taken == Taken::Kept), flag(only_if_there)];
        let words = rate.words().into_iter().chain(flags);
        let is_set =
            self.client.call_once(&self.client.scripts.set_rate, &self.keys.all(), words).await?.yes(&self.keys)?;
        // The new rate may have free permits for waiters.
        self.queue.wake();
        Ok(is_set)
    }
}

/// Permits
impl RedissonLimiter {
    /// Takes one permit if it is free now.
    pub async fn try_acquire(&self) -> Result<AcquireOutcome, RedissonError> {
        self.try_acquire_n(1).await
    }

    /// Takes permits if they are free now. Dropping the future returns what it may have taken.
    pub async fn try_acquire_n(&self, permits: u64) -> Result<AcquireOutcome, RedissonError> {
        self.check(permits)?;
        Attempt::start(&self.client, &self.keys, permits, None).answer().await
    }

    /// Takes permits, waiting for at most the timeout, round trips included. A timeout of zero makes one attempt.
    pub async fn try_acquire_timeout(&self, permits: u64, timeout: Duration) -> Result<AcquireOutcome, RedissonError> {
        if timeout.is_zero() {
            return self.try_acquire_n(permits).await;
        }
        self.check(permits)?;
        let end = Instant::now() + timeout.min(LONGEST_WAIT);
        self.queue.acquire_until(&self.client, &self.keys, permits, end).await
    }

    /// Takes permits, waiting without a limit. Dropping the future returns what it may have taken.
    pub async fn acquire(&self, permits: u64) -> Result<(), RedissonError> {
        self.check(permits)?;
        self.queue.acquire(&self.client, &self.keys, permits).await
    }

    /// Returns permits: the oldest grants first, of any client. More than were taken returns all of them. Sent once: after
    /// an error it may or may not have been executed.
    pub async fn release(&self, permits: u64) -> Result<(), RedissonError> {
        if permits == 0 {
            return Ok(());
        }
        self.check_slots()?;
        let words = [permits.min(1 << 53).to_string().into_bytes()];
        let reply = self.client.call_once(&self.client.scripts.release, &self.keys.all(), words).await?;
        reply.count(&self.keys)?;
        self.queue.wake();
        Ok(())
    }

    /// Permits that are free now.
    pub async fn available_permits(&self) -> Result<u64, RedissonError> {
        self.check_slots()?;
        let reply = self.client.call_once(&self.client.scripts.available, &self.keys.all(), []).await?;
        reply.count(&self.keys)
    }

    /// Checks what needs no server. The rate is known to the server only.
    fn check(&self, permits: u64) -> Result<(), RedissonError> {
        match permits {
            0 => Err(RedissonError::NoPermits),
            permits if permits > u64::from(u32::MAX) => Err(RedissonError::TooManyPermits { permits }),
            _ => self.check_slots(),
        }
    }

    fn check_slots(&self) -> Result<(), RedissonError> {
        let advice = "close the brace in its name, or use none";
        self.client.check_slots(self.name(), &self.keys.all(), advice)
    }
}

/// Lifetime
impl RedissonLimiter {
    /// Lets rate and state expire after this time. `false` if the limiter does not exist.
    pub async fn expire(&self, after: Duration) -> Result<bool, RedissonError> {
        self.put_expiry("PEXPIRE", Some(after)).await
    }

    /// Lets rate and state expire at this time. `false` if the limiter does not exist.
    pub async fn expire_at(&self, at: SystemTime) -> Result<bool, RedissonError> {
        self.put_expiry("PEXPIREAT", Some(at.duration_since(UNIX_EPOCH).unwrap_or_default())).await
    }

    /// Removes the expiry. `false` if there was none.
    pub async fn clear_expire(&self) -> Result<bool, RedissonError> {
        self.put_expiry("PERSIST", None).await
    }

    /// The remaining TTL of the rate.
    pub async fn remaining_ttl(&self) -> Result<Lifetime, RedissonError> {
        Ok(match self.client.command(&self.keys, cmd("PTTL").arg(self.name())).await? {
            Value::Int(-1) => Lifetime::Endless,
            Value::Int(left) => {
                u64::try_from(left).map_or(Lifetime::Absent, |ms| Lifetime::Left(Duration::from_millis(ms)))
            }
            _ => Lifetime::Absent,
        })
    }

    /// Deletes rate and state, except the state of other clients under a rate per client. `false` if there was nothing.
    pub async fn delete(&self) -> Result<bool, RedissonError> {
        self.check_slots()?;
        let deleted = self.client.command(&self.keys, cmd("DEL").arg(&self.keys.all())).await?;
        Ok(deleted != Value::Int(0))
    }

    /// Whether the rate is set.
    pub async fn exists(&self) -> Result<bool, RedissonError> {
        Ok(self.client.command(&self.keys, cmd("EXISTS").arg(self.name())).await? == Value::Int(1))
    }

    /// Renames the limiter, state included, and replaces one of the new name. This handle then refers to the new name.
    /// `false` if the limiter does not exist. In a cluster both names must share a slot, by a hash tag.
    pub async fn rename(&mut self, name: &str) -> Result<bool, RedissonError> {
        let new = Keys::new(&self.client.config.mapped(name), &self.client.client_id);
        let both: Vec<&[u8]> = self.keys.all().into_iter().chain(new.all()).collect();
        self.client.check_slots(self.name(), &both, "give both names the same tag in braces")?;
        let is_moved = self.client.call_once(&self.client.scripts.rename, &both, []).await?.yes(&self.keys)?;
        if is_moved {
            self.keys = Arc::new(new);
        }
        Ok(is_moved)
    }

    async fn put_expiry(&self, command: &str, span: Option<Duration>) -> Result<bool, RedissonError> {
        self.check_slots()?;
        let mut words = vec![command.as_bytes().to_vec()];
        if let Some(span) = span {
            let max = Duration::from_millis(1 << 52);
            let millis = span.as_millis();
            if span > max {
                return Err(RateError::TooLong { span, max }.into());
            }
            words.push(millis.to_string().into_bytes());
        }
        self.client.call_once(&self.client.scripts.expire, &self.keys.all(), words).await?.yes(&self.keys)
    }
}

/// Longer timeouts are cut to this, so that sums of times do not overflow.
const LONGEST_WAIT: Duration = Duration::from_secs(100 * 365 * 86_400);
