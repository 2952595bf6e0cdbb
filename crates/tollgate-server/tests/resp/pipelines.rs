//! Pipelines over Redis: asked together, answered in order, byte by byte as if each had waited for the one before.

use tollgate_core::Micros;
use tollgate_testkit::{random::Random, servers::RedisServer};

use crate::support::{RULES, Server, array, five, load};

/// Values that begin alike are counted as one: different keys, and yet the same counter.
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

/// A server in memory answers one command after the other; one that shares a Redis must say the same.
#[test]
fn a_pipeline_is_answered_as_its_commands_would_be_one_by_one() {
    let redis = RedisServer::start();
    let (shared, pretended) = Server::sharing_by_hand(&redis.url(), &[RULES, SHARED]);
    let alone = Server::start();
    load(&alone.engine, &[RULES, SHARED]);
    let mut random = Random::new(0x0717);
    for round in 0..30 {
        if round % 3 == 0 {
            // Every script is turned back once, and has to be sent again.
            let _ = redis.command(&["SCRIPT", "FLUSH"]).expect_ok();
        }
        let mut asked: Vec<u8> = (0..random.between(1, 300)).flat_map(|_| command(&mut random)).collect();
        asked.extend(array(&["QUIT"]));
        let answered = [&alone, &shared].map(|server| {
            let mut client = server.client();
            client.send(&asked);
            client.hears_the_end()
        });
        assert_eq!(answered[0], answered[1], "round {round}: {}", asked.escape_ascii());
        let pause = random.pick(&[0, 1, 999_999, 3_600_000_000]);
        alone.clock.advance(Micros(pause));
        pretended.set(pretended.now() + Micros(pause));
    }
    assert_eq!(decided_without_redis(&shared), 0);
}

/// The server reads everything a client has sent in one piece, or two, and not once for each command.
#[test]
fn a_pipeline_of_many_keys_goes_out_in_one_piece() {
    let redis = RedisServer::start();
    let (server, _) = Server::sharing_by_hand(&redis.url(), &[]);
    let mut client = server.client();
    // So that the server knows the script.
    client.asks(&["CL.THROTTLE", "first", "9", "1", "60"], five([0, 10, 9, -1, 60]));
    let reads = || redis.info("total_reads_processed").unwrap().parse::<u64>().unwrap();
    let before = reads();
    client.send(
        (0..64).flat_map(|key| array(&["CL.THROTTLE", &format!("key:{key}"), "9", "1", "60"])).collect::<Vec<_>>(),
    );
    client.hears(five([0, 10, 9, -1, 60]).repeat(64));
    let after = reads();
    assert!(after - before < 16, "{} reads", after - before);
}

/// More than the way to Redis carries at once: what does not fit waits its turn, and is not decided without Redis.
#[test]
fn many_pipelines_at_once_are_all_decided_by_redis() {
    let redis = RedisServer::start();
    let (server, _) = Server::sharing_by_hand(&redis.url(), &[]);
    server.client().asks(&["CL.THROTTLE", "first", "9", "1", "60"], five([0, 10, 9, -1, 60]));
    redis.pause();
    let mut clients: Vec<_> = (0..100).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let call = |key| array(&["THROTTLE", &format!("{number}:{key}"), "2", "1", "60"]);
        client.send((0..128).flat_map(call).collect::<Vec<_>>());
    }
    // Whoever comes after them is answered after they were heard.
    (0..10).for_each(|_| server.client().asks(&["PING"], "+PONG\r\n"));
    redis.resume();
    for client in &mut clients {
        client.hears(five([1, 2, 1, 60, 0]).repeat(128));
    }
    assert_eq!(decided_without_redis(&server), 0);
}

fn decided_without_redis(server: &Server) -> u64 {
    let counts = server.engine.store().health().counts;
    let count = |name| counts.iter().find(|(known, _)| *known == name).unwrap().1;
    assert!(count("decided_by_store") > 0);
    count("decided_locally") + count("let_through") + count("turned_away")
}

/// One of every command there is, about few keys.
fn command(random: &mut Random) -> Vec<u8> {
    let key = random.pick(&["a", "b", "c", "a1", "a2", "", "ключ"]);
    let (burst, cost) = (random.pick(&["0", "3", "20"]), random.pick(&["0", "1", "2", "50"]));
    match random.below(18) {
        0..=2 => array(&["CL.THROTTLE", key, burst, "30", "60", cost]),
        3 => array(&["CL.THROTTLE", key, burst, "1", "1"]),
        4 => array(&["THROTTLE", key, "5", "10", "60", cost]),
        5 => array(&["GCRA", key, burst, "10", "0.5", "TOKENS", cost]),
        6..=7 => array(&["TG.CHECK", random.pick(&["api", "shared", "nowhere"]), key, "COST", cost]),
        8 => array(&["tg.check", "shared", key]),
        9 => array(&["TG.CHECK", "api", key, "WAIT", "3000"]),
        10 => array(&["TG.REFUND", random.pick(&["api", "shared"]), key, "COST", "1"]),
        11 => array(&["TG.RESET", random.pick(&["api", "shared"]), key]),
        12 => array(&["ECHO", key]),
        13 => {
            array(random.pick(&[&["PING"][..], &["NO.SUCH", "x"], &["GCRA", "x"], &["THROTTLE", "x", "0", "1", "1"]]))
        }
        14 => array(random.pick(&[&["HELLO", "3"][..], &["HELLO", "2"], &["RESET"], &["AUTH", "x"], &["SELECT", "1"]])),
        15 => array(random.pick(&[&["CLIENT", "SETNAME", "me"][..], &["CLIENT", "GETNAME"], &["CLIENT", "INFO"]])),
        16 => array(&[&b"CL.THROTTLE"[..], b"\xff", b"1", b"1", b"1"]),
        _ => array(&["COMMAND", "INFO", "tg.check"]),
    }
}
