//! A link with its counters, and a script that counts its runs.

use std::time::Duration;

use super::super::*;

/// A link under test.
pub(super) struct Bench {
    pub(super) link: Link,
    pub(super) counters: Arc<Counters>,
    script: Script,
}

impl Bench {
    /// With the usual settings, for tests about time.
    pub(super) fn to(url: &str) -> Self {
        Self::with(url, LinkSettings::default())
    }

    /// With as much time for everything as a busy machine may need.
    pub(super) fn patient(url: &str) -> Self {
        Self::with(url, patient())
    }

    pub(super) fn with(url: &str, settings: LinkSettings) -> Self {
        let counters = Arc::new(Counters::default());
        let link = Link::open(Address::parse(url).unwrap(), settings, counters.clone());
        Self { link, counters, script: Script::new(COUNT_RUNS.into()) }
    }

    /// One run on this key, within the usual deadline: how many there have been.
    pub(super) async fn count(&self, key: &str) -> Result<i64, CallError> {
        self.count_within(key, LinkSettings::default().deadline).await
    }

    /// The same with much more time.
    pub(super) async fn count_patiently(&self, key: &str) -> Result<i64, CallError> {
        self.count_within(key, PATIENCE).await
    }

    pub(super) async fn count_within(&self, key: &str, within: Duration) -> Result<i64, CallError> {
        self.count_among(&[key], within).await
    }

    /// One run on the first of these keys, in a call that names them all.
    pub(super) async fn count_among(&self, keys: &[&str], within: Duration) -> Result<i64, CallError> {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let call = Call {
            script: &self.script,
            keys: &keys,
            args: vec![vec![0; DEADLINE_BYTES]],
            deadline: Instant::now() + within,
        };
        match self.link.call(call).await? {
            Value::Array(parts) => match parts.as_slice() {
                [Value::Int(runs), Value::Int(_)] => Ok(*runs),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Calls until one works, and says how long that took. Nothing but "not carried out" and "unknown" may come before.
    pub(super) async fn until_it_works(&self, key: &str, within: Duration) -> Duration {
        let start = Instant::now();
        loop {
            match self.count(key).await {
                Ok(_) => return start.elapsed(),
                Err(refused @ CallError::Refused { .. }) => panic!("{refused}"),
                Err(error) => assert!(start.elapsed() < within, "still {error} after {within:?}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub(super) fn patient() -> LinkSettings {
    LinkSettings { deadline: PATIENCE, connect_timeout: PATIENCE, ..Default::default() }
}

/// Runs once per call that it may charge, and not at all when it comes too late.
const COUNT_RUNS: &str = "#!lua
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > struct.unpack('>d', ARGV[1]) then
    return {-1, now}
end
return {redis.call('INCR', KEYS[1]), now}";

pub(super) const PATIENCE: Duration = Duration::from_secs(5);
pub(super) const SECOND: Duration = Duration::from_secs(1);
/// What a machine that also compiles may add to anything.
pub(super) const SLACK: Duration = Duration::from_millis(400);
