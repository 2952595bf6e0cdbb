//! Settings of the Redis store.

use std::time::Duration;

use crate::{key::Together, link::LinkSettings};
use ratekeeper_core::ManualClock;

/// Settings of a [`RedisStore`](crate::RedisStore). The defaults suit a server in the same data centre.
///
/// ```
/// use std::time::Duration;
/// use ratekeeper_redis::RedisConfig;
///
/// let config = RedisConfig::default().deadline(Duration::from_millis(12)).prefix("edge").nodes(4);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RedisConfig {
    pub(crate) prefix: String,
    pub(crate) together: Together,
    pub(crate) on_foreign_state: OnForeignState,
    pub(crate) nodes: u32,
    pub(crate) local_bytes: usize,
    pub(crate) local_start_permille: u32,
    pub(crate) link: LinkSettings,
    pub(crate) clock: Option<ManualClock>,
    pub(crate) merging: bool,
}

/// What to do with a foreign value: one under a key of ours that we did not write, that is damaged, or whose rules are not
/// known any more. By default it is not treated as an initial state. A key of another type (a list, a hash) belongs to
/// another application and is always left alone.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnForeignState {
    /// Leave it alone; rules decide by `on_store_failure`.
    #[default]
    Fail,
    /// Replace it by an exhausted key: the limit holds, and the key recovers at its rate.
    Spent,
    /// Replace it by a key in its initial state.
    Fresh,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            prefix: "ratekeeper".to_owned(),
            together: Together::default(),
            on_foreign_state: OnForeignState::default(),
            nodes: 1,
            local_bytes: 32 << 20,
            local_start_permille: 0,
            link: LinkSettings::default(),
            clock: None,
            merging: true,
        }
    }
}

impl RedisConfig {
    /// The prefix of every key's name; `ratekeeper` by default.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Which keys share a slot of a cluster.
    pub fn together(mut self, together: Together) -> Self {
        self.together = together;
        self
    }

    /// The longest time that a decision may take, redirects included.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.link.deadline = deadline;
        self
    }

    /// What to do with foreign values.
    pub fn on_foreign_state(mut self, answer: OnForeignState) -> Self {
        self.on_foreign_state = answer;
        self
    }

    /// How many processes share the limits. While the server is unreachable, each of them enforces its share of the rules
    /// with `on_store_failure: local`. With the default of 1, each enforces the whole limit.
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = nodes.max(1);
        self
    }

    /// Memory for local shares, in bytes. If it is full of keys that are limited or have uncharged grants, further local
    /// grants are refused.
    pub fn local_bytes(mut self, bytes: usize) -> Self {
        self.local_bytes = bytes;
        self
    }

    /// The part of a local share that is free while the store has not answered since the start of this process: from 0, the
    /// default, to 1. The rest counts as used at the start, and is refilled at the rule's rate. A process that restarts
    /// during an outage does not know its earlier grants; with 0 the limit holds nevertheless.
    pub fn local_start(mut self, fraction: f64) -> Self {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000, and NaN becomes 0")]
        let permille = (fraction.clamp(0.0, 1.0) * 1_000.0) as u32;
        self.local_start_permille = permille;
        self
    }

    /// Whether concurrent requests of one key leave in one call; they do by default. The decisions are those of single
    /// calls. Without it, a key that is asked for often costs the server one call per request.
    pub fn merging(mut self, merging: bool) -> Self {
        self.merging = merging;
        self
    }

    /// Timeouts and bounds of the link.
    pub fn link(mut self, settings: LinkSettings) -> Self {
        self.link = settings;
        self
    }

    /// Scripts use this clock instead of the server's: for tests and simulations.
    pub fn manual_clock(mut self, clock: ManualClock) -> Self {
        self.clock = Some(clock);
        self
    }
}
