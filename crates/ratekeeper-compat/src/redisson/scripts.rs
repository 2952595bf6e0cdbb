//! The scripts of Redisson's limiter, concatenated from their parts once per client.

use ratekeeper_redis::link::Script;

/// One script per operation.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) acquire: Script,
    pub(super) available: Script,
    pub(super) release: Script,
    pub(super) undo: Script,
    pub(super) try_set_rate: Script,
    pub(super) set_rate: Script,
    pub(super) expire: Script,
    pub(super) rename: Script,
}

macro_rules! script {
    ($($piece:literal),*) => {
        Script::new(concat!("#!lua\n", $(include_str!(concat!("../../lua/redisson/", $piece, ".lua"))),*).to_owned())
    };
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            acquire: script!("clock", "config", "plain", "expiry", "members", "settle", "acquire"),
            available: script!("clock", "config", "look", "members", "settle", "available"),
            release: script!("clock", "expiry", "config", "look", "members", "settle", "release"),
            undo: script!("clock", "config", "undo"),
            try_set_rate: script!("clock", "try_set_rate"),
            set_rate: script!("clock", "members", "expiry", "set_rate"),
            expire: script!("clock", "expire"),
            rename: script!("clock", "rename"),
        }
    }
}
