//! How a store behaves: where it looks, how long it waits, and what it does when there is no answer.

use std::time::Duration;

use crate::{key::Together, link::LinkSettings, pretend::PretendClock};

/// Settings of a [`RedisStore`](crate::RedisStore). The defaults suit a server in the same data centre.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::RedisConfig;
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
    pub(crate) clock: Option<PretendClock>,
}

/// What to do with a value under one of our keys that is not ours, is damaged, or was counted under rules that nobody
/// knows any more. It is never read as a key that is as good as new, unless you say so. A key of another type (a list, a
/// hash) belongs to somebody else, and is left alone whatever is said here.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnForeignState {
    /// Leave it alone and answer as if the store had failed: by each rule's own policy.
    #[default]
    Fail,
    /// Replace it by a key that has just used up everything: nobody gets more than the limit, and it heals by itself.
    Spent,
    /// Replace it by a key never seen.
    Fresh,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            prefix: "tollgate".to_owned(),
            together: Together::default(),
            on_foreign_state: OnForeignState::default(),
            nodes: 1,
            local_bytes: 32 << 20,
            local_start_permille: 0,
            link: LinkSettings::default(),
            clock: None,
        }
    }
}

impl RedisConfig {
    /// What every key's name begins with.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Which keys share a slot of a cluster.
    pub fn together(mut self, together: Together) -> Self {
        self.together = together;
        self
    }

    /// The longest a decision may take, redirects and all.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.link.deadline = deadline;
        self
    }

    /// What to do with values that are not ours to read.
    pub fn on_foreign_state(mut self, answer: OnForeignState) -> Self {
        self.on_foreign_state = answer;
        self
    }

    /// How many processes share the limits. While the server cannot answer, each of them enforces its share of rules
    /// that say `local`. With the default of 1, each enforces the whole limit.
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = nodes.max(1);
        self
    }

    /// The most bytes that the local share may remember keys in. Where they are used up by keys that are limited or have
    /// grants to be charged, further local grants are refused.
    pub fn local_bytes(mut self, bytes: usize) -> Self {
        self.local_bytes = bytes;
        self
    }

    /// How much of the local share is free for every key while the store has not answered since this process began: from
    /// 0, the default, to 1. The rest counts as used when the process began, and comes back at the rule's pace. A process
    /// that is restarted during an outage does not know what it granted before; 0 keeps the limit all the same.
    pub fn local_start(mut self, fraction: f64) -> Self {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to 1000, and no number is 0"
        )]
        let permille = (fraction.clamp(0.0, 1.0) * 1_000.0) as u32;
        self.local_start_permille = permille;
        self
    }

    /// Patience and bounds of the way to the server.
    pub fn link(mut self, settings: LinkSettings) -> Self {
        self.link = settings;
        self
    }

    /// Lets scripts take their time from this clock instead of the server's: for tests and simulations.
    pub fn pretend_time(mut self, clock: PretendClock) -> Self {
        self.clock = Some(clock);
        self
    }
}
