//! A limiter shared with Java: one method here for each of `RRateLimiter`'s.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use redis::{Value, cmd};

use super::{
    attempt::Attempt,
    client_id::ClientId,
    core::Core,
    error::{RateError, RedissonError},
    keys::Keys,
    line::Line,
    rate::Rate,
    reply::Outcome,
};

/// A named limiter in Redis, the same for Rust and for Java. Cheap to clone; clones wait in one line.
#[derive(Clone, Debug)]
pub struct RedissonLimiter {
    core: Arc<Core>,
    keys: Arc<Keys>,
    line: Arc<Line>,
}

/// What becomes of permits taken under the old rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Taken {
    /// They count on, if the new interval still covers them.
    Kept,
    /// They are forgotten; the limiter begins anew.
    Forgotten,
}

/// How long something will live.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lifetime {
    /// It is not there.
    Absent,
    /// For ever.
    Endless,
    /// For so long, if nobody prolongs it.
    Left(Duration),
}

impl RedissonLimiter {
    pub(super) fn new(core: Arc<Core>, name: &str) -> Self {
        let keys = Keys::new(&core.config.mapped(name), &core.client_id);
        Self { core, keys: Arc::new(keys), line: Arc::default() }
    }

    /// Its name on the server, as mapped.
    pub fn name(&self) -> &str {
        self.keys.name()
    }

    /// Who this client is, where each has permits of its own.
    pub fn client_id(&self) -> &ClientId {
        &self.core.client_id
    }
}

/// The rate
impl RedissonLimiter {
    /// Sets the rate unless there is one. True if it was set: false leaves the other one in place.
    pub async fn try_set_rate(&self, rate: &Rate) -> Result<bool, RedissonError> {
        let keys = self.keys.all();
        self.core.call_once(&self.core.scripts.try_set_rate, &keys[..1], rate.words()).await?.yes(&self.keys)
    }

    /// Sets the rate, whatever was there. Where each client has permits of its own, [`Taken::Forgotten`] means those of
    /// this client: nobody knows the names of the others.
    pub async fn set_rate(&self, rate: &Rate, taken: Taken) -> Result<(), RedissonError> {
        self.put_rate(rate, taken, false).await.map(drop)
    }

    /// Sets the rate if there is one already. False if there is none, or none any more; nothing is written then.
    pub async fn update_rate(&self, rate: &Rate, taken: Taken) -> Result<bool, RedissonError> {
        self.put_rate(rate, taken, true).await
    }

    /// The rate; nothing if the limiter is not set up.
    pub async fn config(&self) -> Result<Option<Rate>, RedissonError> {
        let command = cmd("HMGET").arg(self.name()).arg(&["rate", "interval", "type", "keepAliveTime"]).to_owned();
        let Value::Array(fields) = self.core.command(&self.keys, &command).await? else { return Ok(None) };
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
            self.core.call_once(&self.core.scripts.set_rate, &self.keys.all(), words).await?.yes(&self.keys)?;
        // The new rate may have room for those who wait.
        self.line.wake();
        Ok(is_set)
    }
}

/// Permits
impl RedissonLimiter {
    /// One permit, now or not at all.
    pub async fn try_acquire(&self) -> Result<Outcome, RedissonError> {
        self.try_acquire_n(1).await
    }

    /// So many permits, now or not at all. Dropping the future gives back what it may have taken.
    pub async fn try_acquire_n(&self, permits: u64) -> Result<Outcome, RedissonError> {
        self.check(permits)?;
        Attempt::start(&self.core, &self.keys, permits, None).answer().await
    }

    /// So many permits within the timeout, which is kept: round trips count. A timeout of zero makes one attempt.
    pub async fn try_acquire_timeout(&self, permits: u64, timeout: Duration) -> Result<Outcome, RedissonError> {
        if timeout.is_zero() {
            return self.try_acquire_n(permits).await;
        }
        self.check(permits)?;
        let end = Instant::now() + timeout.min(LONGEST_WAIT);
        self.line.acquire_until(&self.core, &self.keys, permits, end).await
    }

    /// So many permits, however long it takes. Dropping the future gives back what it may have taken.
    pub async fn acquire(&self, permits: u64) -> Result<(), RedissonError> {
        self.check(permits)?;
        self.line.acquire(&self.core, &self.keys, permits).await
    }

    /// Gives permits back: the oldest grants first, whoever has them. More than were taken are as good as all of them;
    /// none is nothing to do. Sent once: an error leaves open whether it was done.
    pub async fn release(&self, permits: u64) -> Result<(), RedissonError> {
        if permits == 0 {
            return Ok(());
        }
        self.check_slots()?;
        let words = [permits.min(1 << 53).to_string().into_bytes()];
        let reply = self.core.call_once(&self.core.scripts.release, &self.keys.all(), words).await?;
        reply.count(&self.keys)?;
        self.line.wake();
        Ok(())
    }

    /// Permits that are free now.
    pub async fn available_permits(&self) -> Result<u64, RedissonError> {
        self.check_slots()?;
        let reply = self.core.call_once(&self.core.scripts.available, &self.keys.all(), []).await?;
        reply.count(&self.keys)
    }

    /// What can be told before anything is sent. The rate itself is known to the server alone.
    fn check(&self, permits: u64) -> Result<(), RedissonError> {
        match permits {
            0 => Err(RedissonError::NoPermits),
            permits if permits > u64::from(u32::MAX) => Err(RedissonError::TooManyPermits { permits }),
            _ => self.check_slots(),
        }
    }

    fn check_slots(&self) -> Result<(), RedissonError> {
        let advice = "close the brace in its name, or use none";
        self.core.check_slots(self.name(), &self.keys.all(), advice)
    }
}

/// Life and death
impl RedissonLimiter {
    /// Forgets the limiter after so long, rate and state together. False if there is nothing to forget.
    pub async fn expire(&self, after: Duration) -> Result<bool, RedissonError> {
        self.put_expiry("PEXPIRE", Some(after)).await
    }

    /// The same at a moment.
    pub async fn expire_at(&self, moment: SystemTime) -> Result<bool, RedissonError> {
        self.put_expiry("PEXPIREAT", Some(moment.duration_since(UNIX_EPOCH).unwrap_or_default())).await
    }

    /// Remembers the limiter for ever. False if it was to be.
    pub async fn clear_expire(&self) -> Result<bool, RedissonError> {
        self.put_expiry("PERSIST", None).await
    }

    /// How long the rate will be remembered.
    pub async fn remaining_ttl(&self) -> Result<Lifetime, RedissonError> {
        Ok(match self.core.command(&self.keys, cmd("PTTL").arg(self.name())).await? {
            Value::Int(-1) => Lifetime::Endless,
            Value::Int(left) => {
                u64::try_from(left).map_or(Lifetime::Absent, |ms| Lifetime::Left(Duration::from_millis(ms)))
            }
            _ => Lifetime::Absent,
        })
    }

    /// Deletes rate and state, but for the state of other clients where each has its own. False if there was nothing.
    pub async fn delete(&self) -> Result<bool, RedissonError> {
        self.check_slots()?;
        let gone = self.core.command(&self.keys, cmd("DEL").arg(&self.keys.all())).await?;
        Ok(gone != Value::Int(0))
    }

    /// Whether the limiter is set up.
    pub async fn exists(&self) -> Result<bool, RedissonError> {
        Ok(self.core.command(&self.keys, cmd("EXISTS").arg(self.name())).await? == Value::Int(1))
    }

    /// Moves the limiter to another name, state included, over whatever is there. This handle goes by the new name then;
    /// false if there is none by the old one. In a cluster both names must share a slot, by a hash tag.
    pub async fn rename(&mut self, name: &str) -> Result<bool, RedissonError> {
        let new = Keys::new(&self.core.config.mapped(name), &self.core.client_id);
        let both: Vec<&[u8]> = self.keys.all().into_iter().chain(new.all()).collect();
        self.core.check_slots(self.name(), &both, "give both names the same tag in braces")?;
        let is_moved = self.core.call_once(&self.core.scripts.rename, &both, []).await?.yes(&self.keys)?;
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
        self.core.call_once(&self.core.scripts.expire, &self.keys.all(), words).await?.yes(&self.keys)
    }
}

/// Whoever names more means for ever, and sums of times must not run over.
const LONGEST_WAIT: Duration = Duration::from_secs(100 * 365 * 86_400);
