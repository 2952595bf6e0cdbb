//! The Redis server under test and its statistics.

use ratekeeper::{Limiter, LimiterBuilder, Rule};
use ratekeeper_redis::{RedisConfig, RedisStore};
use ratekeeper_testkit::servers::RedisServer;
use redis::aio::MultiplexedConnection;

/// A temporary server.
pub(crate) struct Server {
    pub(crate) server: RedisServer,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self { server: RedisServer::start() }
    }

    /// A limiter on it. The server is measured, so deadlines are long and there is no fallback.
    pub(crate) async fn limiter(&self, name: &str, rules: Vec<Rule>) -> Limiter<RedisStore> {
        let config = RedisConfig::default().deadline(std::time::Duration::from_secs(10));
        let store = RedisStore::connect_with(&self.server.url(), config).await.expect("an address");
        LimiterBuilder::new().name(name).rules(rules).store(store).build().expect("sound rules")
    }

    /// A store on it, with a long deadline.
    pub(crate) async fn store(&self) -> RedisStore {
        let config = RedisConfig::default().deadline(std::time::Duration::from_secs(10));
        RedisStore::connect_with(&self.server.url(), config).await.expect("an address")
    }

    pub(crate) async fn connection(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.server.url()).expect("an address");
        client.get_multiplexed_async_connection().await.expect("a server")
    }

    pub(crate) fn reset_statistics(&self) {
        let _ = self.server.command(&["CONFIG", "RESETSTAT"]).expect_ok();
    }

    /// Microseconds per `EVALSHA` since the last reset, and the number of calls.
    pub(crate) fn script_time(&self) -> (f64, u64) {
        let info = self.server.command(&["INFO", "commandstats"]).text();
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).unwrap_or_default();
        let field = |name: &str| {
            let field = line.split(',').find_map(|field| field.strip_prefix(name));
            field.and_then(|value| value.parse::<f64>().ok()).unwrap_or_default()
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        (field("usec_per_call="), field("calls=") as u64)
    }

    /// The sum of these fields of `INFO`.
    pub(crate) fn info(&self, names: &[&str]) -> f64 {
        let info = self.server.command(&["INFO"]).text();
        let fields = info.lines().filter_map(|line| line.split_once(':'));
        fields.filter(|(name, _)| names.contains(name)).filter_map(|(_, value)| value.trim().parse::<f64>().ok()).sum()
    }

    pub(crate) fn memory_of(&self, key: &str) -> i64 {
        self.server.command(&["MEMORY", "USAGE", key, "SAMPLES", "0"]).integer()
    }
}
