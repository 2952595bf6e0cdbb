//! Bound on calls in flight: further calls fail, they are not queued.

use std::time::Duration;

use ratekeeper_testkit::servers::{FaultProxy, RedisServer};

use super::support::*;
use crate::link::{CallError, LinkSettings, error::NotExecuted};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beyond_the_bound_fail_at_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::to(server.address());
    let bench = std::sync::Arc::new(Bench::with(&proxy.url(), LinkSettings { max_in_flight: 8, ..patient() }));
    bench.count_patiently("k").await.unwrap();

    proxy.delay_replies(Duration::from_millis(500));
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let bench = bench.clone();
            tokio::spawn(async move { bench.count_patiently("k").await })
        })
        .collect();
    let mut answered = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => answered += 1,
            Err(error) => assert!(matches!(error, CallError::NotExecuted { why: NotExecuted::TooBusy, .. }), "{error}"),
        }
    }
    assert_eq!(answered, 8);
    proxy.pass();
    assert_eq!(bench.count_patiently("k").await, Ok(10));
}
