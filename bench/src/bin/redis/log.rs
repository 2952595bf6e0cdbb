//! Sliding logs of 10, 1 000 and 100 000 live entries, compared with a sorted set.

use ratekeeper::{Limiter, Quota, Rule};
use ratekeeper_redis::RedisStore;

use crate::{Options, server::Server, time::in_flight};

/// A sliding window in a sorted set: remove expired members, count, add, expire.
const SORTED_SET: &str = "#!lua
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
local used = redis.call('ZCARD', KEYS[1])
if used >= tonumber(ARGV[2]) then
  return {0, used}
end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[1] / 1000))
return {1, used + 1}";

const ENTRIES: [usize; 3] = [10, 1_000, 100_000];
/// Decisions per measurement. A log is rewritten when it exceeds its reserve of an eighth; so many decisions include
/// rewrites as often as the long run does.
const SAMPLE: usize = 250;
/// Rounds of the largest log, which takes long to fill.
const FEW_ROUNDS: usize = 2;

pub(crate) async fn report(server: &Server, options: &Options) {
    println!("sliding log, server time per decision and bytes per entry\n");
    println!(
        "| live entries | admitted, µs | denied, µs | sorted set admitted, µs | denied, µs | bytes per entry | sorted set |"
    );
    println!("|---|---|---|---|---|---|---|");
    for entries in ENTRIES {
        let open = vec![Rule::sliding_log("a", Quota::per_hour((entries + SAMPLE) as u64))];
        let limiter = server.limiter(&format!("log {entries}"), open).await;
        let mut best = [f64::MAX; 4];
        let (mut ours, mut theirs) = (0, 0);
        let rounds = if entries > 10_000 { FEW_ROUNDS } else { options.rounds };
        for round in 0..rounds {
            // A new key per round: filled, then measured up to the limit, then denied.
            let key = format!("user:{round}");
            fill(&limiter, &key, entries).await;
            ours = server.memory_of(&format!("ratekeeper:1:/log%20{entries}:{{{key}}}"));
            let set = SortedSet::new(server, format!("sorted:{entries}:{round}")).await;
            set.fill(entries).await;
            theirs = server.memory_of(&set.key);
            best[0] = best[0].min(measure(server, &limiter, &key).await);
            best[1] = best[1].min(measure(server, &limiter, &key).await);
            best[2] = best[2].min(set.measure(server, 1_000_000).await);
            best[3] = best[3].min(set.measure(server, 0).await);
            let _ = limiter.reset(&key).await.expect("a reply");
        }
        let [admitted, denied, set_admitted, set_denied] = best;
        #[allow(clippy::cast_precision_loss, reason = "a report")]
        let per_entry = |bytes: i64| bytes as f64 / entries as f64;
        println!(
            "| {entries} | {admitted:.2} | {denied:.2} | {set_admitted:.2} | {set_denied:.2} | {:.1} | {:.1} |",
            per_entry(ours),
            per_entry(theirs)
        );
    }
    println!();
}

async fn fill(limiter: &Limiter<RedisStore>, key: &str, entries: usize) {
    let (limiter, key) = (limiter.clone(), key.to_owned());
    in_flight(entries, move |_| {
        let (limiter, key) = (limiter.clone(), key.clone());
        async move {
            let _ = limiter.check(&key).await.expect("a reply");
        }
    })
    .await;
}

async fn measure(server: &Server, limiter: &Limiter<RedisStore>, key: &str) -> f64 {
    server.reset_statistics();
    fill(limiter, key, SAMPLE).await;
    server.script_time().0
}

struct SortedSet {
    connection: redis::aio::MultiplexedConnection,
    hash: String,
    key: String,
}

impl SortedSet {
    async fn new(server: &Server, key: String) -> Self {
        let mut connection = server.connection().await;
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(SORTED_SET).to_owned();
        let hash: String = load.query_async(&mut connection).await.expect("a script");
        Self { connection, hash, key }
    }

    async fn ask(&self, limit: u64, member: u128) {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.hash).arg(1).arg(&self.key).arg(3_600_000_000_u64).arg(limit).arg(member.to_string());
        let _: Vec<i64> = command.query_async(&mut self.connection.clone()).await.expect("a reply");
    }

    /// Members as limiters usually write them: unique, as long as a time in microseconds.
    async fn fill(&self, entries: usize) {
        let (connection, hash, key) = (self.connection.clone(), self.hash.clone(), self.key.clone());
        in_flight(entries, move |entry| {
            let set = Self { connection: connection.clone(), hash: hash.clone(), key: key.clone() };
            async move { set.ask(1_000_000, 1_700_000_000_000_000 + entry as u128).await }
        })
        .await;
    }

    async fn measure(&self, server: &Server, limit: u64) -> f64 {
        server.reset_statistics();
        let began = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        for call in 0..SAMPLE as u128 {
            self.ask(limit, began.as_micros() * 1_000 + call).await;
        }
        server.script_time().0
    }
}
