//! Limits kept in Redis: the same answers through any of several servers, and in order.

use tollgate_testkit::servers::RedisServer;

use crate::support::{Server, array, five};

#[test]
fn servers_that_share_a_store_share_its_limits() {
    let redis = RedisServer::start();
    let (one, other) = (Server::sharing(&redis.url()), Server::sharing(&redis.url()));
    // One permit in an hour and a half: no time that a test takes brings one back, or moves a rounded second far.
    let call = ["CL.THROTTLE", "u", "3", "1", "5400"];
    one.client().asks(&call, five([0, 4, 3, -1, 5_400]));
    let mut client = other.client();
    client.send(array(&call));
    assert_eq!(client.hears_integers()[..4], [0, 4, 2, -1]);
    // Other numbers, the same key: what is left of an hour and a half, twice, is more than three hours less a minute.
    client.send(array(&["CL.THROTTLE", "u", "0", "1", "60", "0"]));
    let told = client.hears_integers();
    assert_eq!(told[..3], [1, 1, 0]);
    assert!((10_600..=10_740).contains(&told[3]) && (10_660..=10_800).contains(&told[4]), "{told:?}");
}

#[test]
fn a_pipeline_over_redis_is_answered_in_order() {
    let redis = RedisServer::start();
    let server = Server::sharing(&redis.url());
    let mut client = server.client();
    let mut asked = Vec::new();
    for round in 0..50 {
        asked.extend(array(&["CL.THROTTLE", "one", "99", "1", "3600"]));
        asked.extend(array(&["ECHO", &round.to_string()]));
    }
    client.send(asked);
    for round in 0..50_usize {
        assert_eq!(client.hears_integers()[..3], [0, 100, 99 - i64::try_from(round).unwrap()]);
        client.hears(format!("${}\r\n{round}\r\n", round.to_string().len()));
    }
}
