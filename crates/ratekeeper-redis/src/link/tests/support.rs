//! Fixture: a link with its counters, and a script that counts its runs.

use std::time::Duration;

use super::super::*;

/// A link under test.
pub(super) struct Bench {
    pub(super) link: Link,
    pub(super) counters: Arc<Counters>,
    script: Script,
}

impl Bench {
    /// With default settings, for tests about time.
    pub(super) fn to(url: &str) -> Self {
        Self::with(url, LinkSettings::default())
    }

    /// With timeouts that suffice on a busy machine.
    pub(super) fn patient(url: &str) -> Self {
        Self::with(url, patient())
    }

    pub(super) fn with(url: &str, settings: LinkSettings) -> Self {
        let counters = Arc::new(Counters::default());
        let link = Link::open_counted(Address::parse(url).unwrap(), settings, counters.clone());
        Self { link, counters, script: Script::new(COUNT_RUNS.into()) }
    }

    /// Runs the script on this key, within the default deadline; returns the number of runs so far.
    pub(super) async fn count(&self, key: &str) -> Result<i64, CallError> {
        self.count_within(key, LinkSettings::default().deadline).await
    }

    /// The same with a longer deadline.
    pub(super) async fn count_patiently(&self, key: &str) -> Result<i64, CallError> {
        self.count_within(key, TIMEOUT).await
    }

    pub(super) async fn count_within(&self, key: &str, within: Duration) -> Result<i64, CallError> {
        self.count_among(&[key], within).await
    }

    /// Runs the script on the first of these keys, in a call with all of them.
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

    /// Calls until one succeeds, and returns the time. Earlier calls may be "not executed" or "unknown" only.
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
    LinkSettings { deadline: TIMEOUT, connect_timeout: TIMEOUT, ..Default::default() }
}

/// Counts one run per call, and none after the deadline.
const COUNT_RUNS: &str = "#!lua
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > struct.unpack('>d', ARGV[1]) then
    return {-1, now}
end
return {redis.call('INCR', KEYS[1]), now}";

pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
pub(super) const SECOND: Duration = Duration::from_secs(1);
/// Tolerance for a machine under load.
pub(super) const SLACK: Duration = Duration::from_millis(400);
