//! Limits in Redis: several servers share them, and replies are in order.

use ratekeeper_testkit::servers::RedisServer;

use crate::support::{Server, array, five};

#[test]
fn servers_that_share_a_store_share_its_limits() {
    let redis = RedisServer::start();
    let (one, other) = (Server::on_redis(&redis.url()), Server::on_redis(&redis.url()));
    // One permit per 5400 s: the duration of the test neither refills one nor shifts a rounded second far.
    let call = ["CL.THROTTLE", "u", "3", "1", "5400"];
    one.client().exchange(&call, five([0, 4, 3, -1, 5_400]));
    let mut client = other.client();
    client.send(array(&call));
    assert_eq!(client.read_integers()[..4], [0, 4, 2, -1]);
    // Other numbers, same key: two permits have been taken, so `reset_after` is just below 10800 s and `retry_after`
    // is 60 s less.
    client.send(array(&["CL.THROTTLE", "u", "0", "1", "60", "0"]));
    let reply = client.read_integers();
    assert_eq!(reply[..3], [1, 1, 0]);
    assert!((10_600..=10_740).contains(&reply[3]) && (10_660..=10_800).contains(&reply[4]), "{reply:?}");
}

#[test]
fn a_pipeline_over_redis_is_answered_in_order() {
    let redis = RedisServer::start();
    let server = Server::on_redis(&redis.url());
    let mut client = server.client();
    let mut commands = Vec::new();
    for round in 0..50 {
        commands.extend(array(&["CL.THROTTLE", "one", "99", "1", "3600"]));
        commands.extend(array(&["ECHO", &round.to_string()]));
    }
    client.send(commands);
    for round in 0..50_usize {
        assert_eq!(client.read_integers()[..3], [0, 100, 99 - i64::try_from(round).unwrap()]);
        client.expect(format!("${}\r\n{round}\r\n", round.to_string().len()));
    }
}
