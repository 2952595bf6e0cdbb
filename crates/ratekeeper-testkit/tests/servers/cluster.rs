//! Slots move with their keys, and replicas take over.

use std::{collections::HashSet, time::Duration};

use ratekeeper_testkit::servers::{Binary, Cluster, RedisServer, Reply};

/// One hash tag, so that all keys lie in one slot.
fn key(number: usize) -> String {
    format!("{{tag}}{number}")
}

fn fill(node: &RedisServer, count: usize) {
    for number in 0..count {
        assert_eq!(node.command(&["SET", &key(number), "value"]).text(), "OK");
    }
}

fn keys_in(node: &RedisServer, slot: u16) -> i64 {
    node.command(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]).integer()
}

fn moves_a_slot_with_its_keys(cluster: &Cluster) {
    let slot = cluster.slot_of(&key(0));
    let from = cluster.node_of_slot(slot);
    let to = cluster.primaries().into_iter().find(|node| node.port() != from.port()).unwrap();
    fill(from, 250);
    assert!(to.command(&["GET", &key(0)]).is_error("MOVED"));

    cluster.migrate_slot(slot, to);
    assert_eq!((keys_in(from, slot), keys_in(to, slot)), (0, 250));
    assert_eq!(to.command(&["GET", &key(0)]), Reply::Bulk("value".into()));
    assert!(from.command(&["GET", &key(0)]).is_error(&format!("MOVED {slot} {}", to.address())));
    cluster.settle(Duration::from_secs(15));
    assert_eq!(cluster.node_of_slot(slot).port(), to.port());
}

#[test]
fn redis_moves_a_slot_with_its_keys() {
    moves_a_slot_with_its_keys(&Cluster::with().without_replicas().start());
}

#[test]
fn valkey_moves_a_slot_with_its_keys() {
    moves_a_slot_with_its_keys(&Cluster::with().binary(Binary::Valkey).without_replicas().start());
}

/// Half way, the old owner answers for what it has and sends clients on for the rest.
#[test]
fn a_slot_half_moved_asks_clients_to_go_on() {
    let cluster = Cluster::with().without_replicas().start();
    let slot = cluster.slot_of(&key(0));
    fill(cluster.node_of_slot(slot), 10);
    let to = cluster.primaries().into_iter().find(|node| node.port() != cluster.node_of_slot(slot).port()).unwrap();

    let moving = cluster.begin_move(slot, to);
    assert_eq!(moving.move_keys(4), 4);
    let answers: Vec<_> = (0..10).map(|number| moving.from().command(&["GET", &key(number)])).collect();
    assert_eq!(answers.iter().filter(|answer| answer.is_error("ASK")).count(), 4);
    assert_eq!(answers.iter().filter(|answer| **answer == Reply::Bulk("value".into())).count(), 6);

    let gone = answers.iter().position(|answer| answer.is_error("ASK")).unwrap();
    assert!(to.command(&["GET", &key(gone)]).is_error("MOVED"), "the slot is not yet its own");
    let mut conversation = to.connect(Duration::from_secs(5)).unwrap();
    assert_eq!(conversation.ask(&["ASKING"]).unwrap().text(), "OK");
    assert_eq!(conversation.ask(&["GET", &key(gone)]).unwrap(), Reply::Bulk("value".into()));

    moving.finish();
    assert_eq!(keys_in(to, slot), 10);
}

#[test]
fn a_replica_takes_over_from_a_dead_primary_which_then_follows() {
    let cluster = Cluster::start();
    assert_eq!(cluster.nodes().len(), 6);
    assert_eq!(cluster.url().matches("127.0.0.1:").count(), 6);
    let owners: HashSet<_> = (0..16_384).step_by(1024).map(|slot| cluster.node_of_slot(slot).port()).collect();
    assert_eq!(owners, cluster.primaries().into_iter().map(RedisServer::port).collect());

    let slot = cluster.slot_of(&key(0));
    let old = cluster.node_of_slot(slot);
    let [heir] = cluster.replicas_of(old)[..] else { panic!("one replica for each primary") };
    let mut conversation = old.connect(Duration::from_secs(5)).unwrap();
    assert_eq!(conversation.ask(&["SET", &key(0), "value"]).unwrap().text(), "OK");
    assert_eq!(conversation.ask(&["WAIT", "1", "5000"]).unwrap(), Reply::Integer(1), "the replica has the key");

    old.kill();
    cluster.settle(Duration::from_secs(20));
    assert_eq!(cluster.node_of_slot(slot).port(), heir.port());
    assert_eq!(heir.command(&["GET", &key(0)]), Reply::Bulk("value".into()));

    old.restart();
    cluster.settle(Duration::from_secs(20));
    assert_eq!(cluster.replicas_of(heir).iter().map(|node| node.port()).collect::<Vec<_>>(), [old.port()]);
}
