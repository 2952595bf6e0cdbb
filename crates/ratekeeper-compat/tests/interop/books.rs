//! Stored state of a limiter, read in one step and by neither of the two clients.

use std::collections::BTreeMap;

use ratekeeper_testkit::servers::{RedisServer, Reply};

/// Free permits, and grants: their bytes, and their score in milliseconds.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) value: i64,
    pub(crate) grants: BTreeMap<Vec<u8>, i64>,
}

impl Books {
    /// Reads the shared state, or the state of one client.
    pub(crate) fn read(server: &RedisServer, name: &str, client: Option<&str>) -> Self {
        let script = "return {redis.call('GET', KEYS[1]), redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')}";
        let [value, permits] = keys(name, client);
        let answer = server.command(&["EVAL", script, "2", &value, &permits]).expect_ok();
        let [value, grants] = answer.items() else { panic!("two things were asked for, not {answer:?}") };
        let pairs = grants.items().chunks(2).map(|pair| match &pair[0] {
            Reply::Bulk(grant) => (grant.clone(), pair[1].integer()),
            other => panic!("expected a grant, found {other:?}"),
        });
        Self { value: value.integer(), grants: pairs.collect() }
    }

    /// Permits in all grants.
    pub(crate) fn taken(&self) -> i64 {
        self.grants.keys().map(|grant| permits_in(grant)).sum()
    }

    /// Checks that free and granted permits add up to the rate; returns both.
    #[track_caller]
    pub(crate) fn balance(&self, rate: i64) -> (i64, i64) {
        assert_eq!(self.value + self.taken(), rate, "{self:?}");
        (self.value, self.taken())
    }
}

/// Keys of the value and of the grants.
pub(crate) fn keys(name: &str, client: Option<&str>) -> [String; 2] {
    let owner = client.map_or_else(String::new, |id| format!(":{id}"));
    ["value", "permits"].map(|kind| format!("{{{name}}}:{kind}{owner}"))
}

pub(crate) fn permits_in(grant: &[u8]) -> i64 {
    assert_eq!((grant.len(), grant[0]), (21, 16), "a grant of today, not {grant:?}");
    i64::from(u32::from_ne_bytes(*grant.last_chunk().unwrap()))
}
