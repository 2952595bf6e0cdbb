//! Pipelines over Redis: calls in flight together, with the replies of sequential execution.

use ratekeeper_core::Span;
use ratekeeper_server::wiring::StoreHealth;
use ratekeeper_testkit::{random::Random, servers::RedisServer};

use crate::support::{RULES, Server, array, five, load};

/// Values with the same prefix share a counter: different keys, one count.
const SHARED: &str = "\
domain: shared
descriptors:
  - key: key
    value: a*
    share_threshold: true
    rate_limit: { unit: hour, requests_per_unit: 40 }
  - key: key
    rate_limit: { unit: hour, requests_per_unit: 5 }
";

/// A descriptor is counted by several policies.
const EVERY: &str = r#"
domain: every
match: all
policies:
  - { name: user, match: { user: "*" }, rules: [{ name: r, algorithm: sliding_log, limit: 6, per: 1h }] }
  - { name: ip, match: { ip: "*" }, rules: [{ name: r, algorithm: token_bucket, limit: 9, per: 1h }] }
  - { name: all, rules: [{ name: r, algorithm: fixed_window, limit: 30, per: 1h }] }
"#;

/// A server with the embedded store executes commands one by one; a server on Redis must give the same replies.
#[test]
fn a_pipeline_is_answered_like_sequential_commands() {
    let redis = RedisServer::start();
    let (shared, pretended) = Server::on_redis_with_manual_clock(&redis.url(), &[RULES, SHARED, EVERY]);
    let alone = Server::start();
    load(&alone.engine, &[RULES, SHARED, EVERY]);
    let mut random = Random::new(0x0717);
    for round in 0..30 {
        if round % 3 == 0 {
            // Redis then rejects every script once, and it is sent again.
            let _ = redis.command(&["SCRIPT", "FLUSH"]).expect_ok();
        }
        let mut commands: Vec<u8> = (0..random.between(1, 300)).flat_map(|_| command(&mut random)).collect();
        commands.extend(array(&["QUIT"]));
        let answered = [&alone, &shared].map(|server| {
            let mut client = server.client();
            client.send(&commands);
            client.expect_end()
        });
        assert_eq!(answered[0], answered[1], "round {round}: {}", commands.escape_ascii());
        let pause = random.pick(&[0, 1, 999_999, 3_600_000_000]);
        alone.clock.advance(Span::from_micros(pause));
        pretended.set(pretended.now() + Span::from_micros(pause));
    }
    assert_eq!(decided_without_redis(&shared), 0);
}

/// The calls of one pipeline reach Redis in few reads, not in one read per command.
#[test]
fn a_pipeline_of_many_keys_is_sent_in_few_writes() {
    let redis = RedisServer::start();
    let (server, _) = Server::on_redis_with_manual_clock(&redis.url(), &[]);
    let mut client = server.client();
    // Loads the script into Redis.
    client.exchange(&["CL.THROTTLE", "first", "9", "1", "60"], five([0, 10, 9, -1, 60]));
    let reads = || redis.info("total_reads_processed").unwrap().parse::<u64>().unwrap();
    let before = reads();
    client.send(
        (0..64).flat_map(|key| array(&["CL.THROTTLE", &format!("key:{key}"), "9", "1", "60"])).collect::<Vec<_>>(),
    );
    client.expect(five([0, 10, 9, -1, 60]).repeat(64));
    let after = reads();
    assert!(after - before < 16, "{} reads", after - before);
}

/// Calls beyond the capacity of the link to Redis wait; they are not decided without Redis.
#[test]
fn concurrent_pipelines_are_all_decided_by_redis() {
    let redis = RedisServer::start();
    let (server, _) = Server::on_redis_with_manual_clock(&redis.url(), &[]);
    server.client().exchange(&["CL.THROTTLE", "first", "9", "1", "60"], five([0, 10, 9, -1, 60]));
    redis.pause();
    let mut clients: Vec<_> = (0..100).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let call = |key| array(&["THROTTLE", &format!("{number}:{key}"), "2", "1", "60"]);
        client.send((0..128).flat_map(call).collect::<Vec<_>>());
    }
    // Commands after them are answered after they were executed.
    (0..10).for_each(|_| server.client().exchange(&["PING"], "+PONG\r\n"));
    redis.resume();
    for client in &mut clients {
        client.expect(five([1, 2, 1, 60, 0]).repeat(128));
    }
    assert_eq!(decided_without_redis(&server), 0);
}

fn decided_without_redis(server: &Server) -> u64 {
    let counts = StoreHealth::of(server.engine.store()).counts;
    let count = |name| counts.iter().find(|(known, _)| *known == name).unwrap().1;
    assert!(count("decided_by_store") > 0);
    count("decided_locally") + count("let_through") + count("turned_away")
}

/// A random command on one of few keys.
fn command(random: &mut Random) -> Vec<u8> {
    let key = random.pick(&["a", "b", "c", "a1", "a2", "", "ключ"]);
    let (burst, cost) = (random.pick(&["0", "3", "20"]), random.pick(&["0", "1", "2", "50"]));
    match random.below(25) {
        0..=2 => array(&["CL.THROTTLE", key, burst, "30", "60", cost]),
        3 => array(&["CL.THROTTLE", key, burst, "1", "1"]),
        4 => array(&["THROTTLE", key, "5", "10", "60", cost]),
        5 => array(&["GCRA", key, burst, "10", "0.5", "TOKENS", cost]),
        6..=7 => array(&["RK.CHECK", random.pick(&["api", "shared", "nowhere"]), key, "COST", cost]),
        8 => array(&["rk.check", "shared", key]),
        9 => array(&["RK.CHECK", "api", key, "WAIT", "3000"]),
        10 => array(&["RK.REFUND", random.pick(&["api", "shared"]), key, "COST", "1"]),
        11 => array(&["RK.RESET", random.pick(&["api", "shared"]), key]),
        18 => array(&["RK.CHECK", "api", "ENTRIES", "1", "user", key, "ENTRIES", "1", "user", "b", "COST", cost]),
        19 => array(&["RK.CHECK", "every", "ENTRIES", "2", "user", key, "ip", "c", "COST", cost]),
        20 => array(&["RK.PENALIZE", "api", key, "COST", "1"]),
        21 => array(&["RK.SETTLE", "every", "ENTRIES", "1", "user", key, "RESERVED", "2", "ACTUAL", "1"]),
        23 => array(&["RK.TAKE", key, random.pick(&["sliding_log", "token_bucket"]), "5", "1h", "COST", cost]),
        24 => array(&["RK.TAKE", key, "fixed_window", burst, "1h", "AND", "token_bucket", "9", "1m", "WAIT", "3000"]),
        22 => array(&["RK.PEEK", random.pick(&["api", "shared"]), key]),
        12 => array(&["ECHO", key]),
        13 => {
            array(random.pick(&[&["PING"][..], &["NO.SUCH", "x"], &["GCRA", "x"], &["THROTTLE", "x", "0", "1", "1"]]))
        }
        14 => array(random.pick(&[&["HELLO", "3"][..], &["HELLO", "2"], &["RESET"], &["AUTH", "x"], &["SELECT", "1"]])),
        15 => array(random.pick(&[&["CLIENT", "SETNAME", "me"][..], &["CLIENT", "GETNAME"], &["CLIENT", "INFO"]])),
        16 => array(&[&b"CL.THROTTLE"[..], b"\xff", b"1", b"1", b"1"]),
        _ => array(&["COMMAND", "INFO", "rk.check"]),
    }
}
