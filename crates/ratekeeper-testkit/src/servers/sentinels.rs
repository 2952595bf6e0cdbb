//! Redis Sentinel: a primary, two replicas, and three sentinels.
//!
//! The sentinels discover each other and the replicas, as in production. `SENTINEL DEBUG` shortens the periods at which
//! they publish and poll.

use std::{thread, time::Duration};

use super::{
    Binary, RedisServer, Reply,
    wait::{wait_for, wait_until},
};

/// A primary watched by sentinels, for one test. At the start the first of [`Self::servers`] is the primary.
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl Sentinels {
    /// Starts all six on Redis.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(Binary::Redis)
    }

    /// Starts all six, and waits until the replicas are in sync and every sentinel knows all others.
    #[track_caller]
    pub fn start_with(binary: Binary) -> Self {
        let with = || RedisServer::with().binary(binary.clone());
        let primary = with().start();
        let replica = || with().replica_of(&primary).start();
        let replicas = [replica(), replica()];
        wait_until("replicas in sync", START_BOUND, || {
            primary.info("connected_slaves").as_deref() == Some("2") && replicas.iter().all(is_linked)
        });

        let port = primary.port();
        let sentinel = || {
            // Two of three must agree.
            let builder = with().sentinel().config("sentinel monitor", &format!("{PRIMARY} 127.0.0.1 {port} 2"));
            let builder = builder
                .config("sentinel down-after-milliseconds", &format!("{PRIMARY} {DOWN_AFTER_MS}"))
                .config("sentinel failover-timeout", &format!("{PRIMARY} {FAILOVER_TIMEOUT_MS}"))
                .config("sentinel parallel-syncs", &format!("{PRIMARY} 2"));
            let started = builder.start();
            let _ = started.command(SHORT_PERIODS).expect_ok();
            started
        };
        let sentinels = thread::scope(|scope| {
            let starting = [(); 3].map(|()| scope.spawn(sentinel));
            starting.into_iter().map(|sentinel| sentinel.join().expect("a sentinel that starts")).collect()
        });
        let servers = [primary].into_iter().chain(replicas).collect();
        let this = Self { servers, sentinels };
        wait_until("sentinels that know all others", START_BOUND, || this.sentinels.iter().all(knows_all_others));
        this
    }

    /// `redis+sentinel://`, the three sentinels, and the name under which they know the primary.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.sentinels.iter().map(RedisServer::address).collect();
        format!("redis+sentinel://{}/{PRIMARY}", addresses.join(","))
    }

    /// The primary and the replicas, whichever is which now.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The primary according to the first sentinel that answers. Before a failover it may be down.
    #[track_caller]
    pub fn primary(&self) -> &RedisServer {
        self.named_primaries().next().expect("one sentinel that answers")
    }

    /// Waits until every sentinel names the same primary, not `old`, and that one calls itself primary.
    #[track_caller]
    pub fn wait_for_failover(&self, old: &RedisServer, within: Duration) -> &RedisServer {
        wait_for("a new primary that all sentinels name", within, || {
            let named: Vec<&RedisServer> = self.named_primaries().collect();
            let new = *named.first()?;
            let is_agreed = new.port() != old.port() && named.iter().all(|other| other.port() == new.port());
            // A sentinel that has not answered may still name the old one.
            let all_answered = named.len() == self.sentinels.len();
            (all_answered && is_agreed && new.info("role").as_deref() == Some("master")).then_some(new)
        })
    }

    /// How often the primary has changed since the start, according to the sentinel that has logged most changes: a busy one
    /// may log two as one.
    pub fn failovers(&self) -> usize {
        let seen = self.sentinels.iter().map(|sentinel| sentinel.log().matches("+switch-master").count());
        seen.max().unwrap_or_default()
    }

    /// The primary as each sentinel names it, without those that do not answer.
    fn named_primaries(&self) -> impl Iterator<Item = &RedisServer> {
        self.sentinels.iter().filter_map(|sentinel| {
            let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", PRIMARY];
            let port = sentinel.try_command(&words, POLL_TIMEOUT).ok()?.items()[1].integer();
            Some(self.servers.iter().find(|server| i64::from(server.port()) == port).expect("one of our servers"))
        })
    }
}

fn is_linked(replica: &RedisServer) -> bool {
    replica.info("master_link_status").as_deref() == Some("up")
}

fn knows_all_others(sentinel: &RedisServer) -> bool {
    let Ok(Reply::Array(replicas)) = sentinel.try_command(&["SENTINEL", "REPLICAS", PRIMARY], POLL_TIMEOUT) else {
        return false;
    };
    // A replica that is reachable and has reported can be promoted.
    let can_be_promoted = |replica: &Reply| {
        field(replica, "flags").as_deref() == Some("slave")
            && field(replica, "master-link-status").as_deref() == Some("ok")
    };
    // Counts the sentinels that are reachable, this one included.
    let quorum = sentinel.try_command(&["SENTINEL", "CKQUORUM", PRIMARY], POLL_TIMEOUT);
    replicas.len() == 2
        && replicas.iter().all(can_be_promoted)
        && quorum.is_ok_and(|words| words.text().starts_with("OK 3"))
}

/// A value from a flat list of names and values.
fn field(of: &Reply, name: &str) -> Option<String> {
    of.items().chunks_exact(2).find(|pair| pair[0].text() == name).map(|pair| pair[1].text())
}

const PRIMARY: &str = "mymaster";
const DOWN_AFTER_MS: u32 = 500;
/// A failed failover is tried again after twice this time.
const FAILOVER_TIMEOUT_MS: u32 = 3000;
/// In milliseconds; by default 10 s and 2 s. The ping period keeps its default: a replica is promoted only if its last
/// report is younger than five ping periods, and while the primary is down, reports come once a second.
const SHORT_PERIODS: &[&str] = &["SENTINEL", "DEBUG", "INFO-PERIOD", "500", "PUBLISH-PERIOD", "100"];
const START_BOUND: Duration = Duration::from_secs(20);
const POLL_TIMEOUT: Duration = Duration::from_secs(1);
