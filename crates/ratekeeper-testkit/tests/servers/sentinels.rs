//! Sentinels agree on a new primary when the old one is gone.

use std::time::Duration;

use ratekeeper_testkit::servers::{Binary, Reply, Sentinels, wait_until};

const FAILOVER: Duration = Duration::from_secs(60);

fn survives_the_death_of_its_primary(sentinels: &Sentinels) {
    let old = sentinels.primary();
    assert_eq!(old.port(), sentinels.servers()[0].port());
    // `WAIT` counts only the writes of the same connection.
    let mut conversation = old.connect(Duration::from_secs(5)).unwrap();
    assert_eq!(conversation.ask(&["SET", "key", "value"]).unwrap().text(), "OK");
    assert_eq!(conversation.ask(&["WAIT", "2", "5000"]).unwrap(), Reply::Integer(2), "both replicas have the key");

    old.kill();
    let new = sentinels.wait_for_failover(old, FAILOVER);
    assert_ne!(new.port(), old.port());
    assert_eq!(new.command(&["GET", "key"]), Reply::Bulk("value".into()));
    assert_eq!(new.command(&["SET", "key", "newer"]).text(), "OK");

    old.restart();
    wait_until("the old primary to follow the new", FAILOVER, || {
        // A sentinel that turns a server into a replica also cuts its connections; then we ask again.
        old.try_command(&["GET", "key"], FAILOVER).is_ok_and(|value| value == Reply::Bulk("newer".into()))
    });
}

#[test]
fn redis_fails_over() {
    let sentinels = Sentinels::start();
    assert!(sentinels.url().starts_with("redis+sentinel://127.0.0.1:"));
    assert!(sentinels.url().ends_with(&format!("127.0.0.1:{}/mymaster", sentinels.sentinels()[2].port())));
    survives_the_death_of_its_primary(&sentinels);
}

#[test]
fn valkey_fails_over() {
    survives_the_death_of_its_primary(&Sentinels::start_with(Binary::Valkey));
}
