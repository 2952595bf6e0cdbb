//! Permissions of the account, and whether writes are accepted: tried with every command of the store on a temporary key.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
};

use ratekeeper_redis::{Address, link::Script};

use super::{
    Finding,
    discovery::{Group, Server},
    probe::{Probe, ProbeError},
};

pub(super) async fn check(probe: &Probe, address: &Address, prefix: &str, server: &Server) -> Vec<Finding> {
    let key = temporary_key(probe, prefix, server).await;
    let script = Script::new("#!lua\nreturn 1".to_owned());
    let tries: [(&str, &[&str]); 7] = [
        ("+ping", &["PING"]),
        ("+time", &["TIME"]),
        ("+set", &["SET", &key, "temporary", "PX", TTL_MS]),
        ("+get", &["GET", &key]),
        ("+eval", &["EVAL", script.text(), "1", &key]),
        ("+evalsha", &["EVALSHA", script.hash(), "1", &key]),
        ("+del", &["DEL", &key]),
    ];
    let (mut missing, mut keys_denied) = (Vec::new(), false);
    let mut writes = Finding::ok("writes", "a write was accepted");
    for (permission, words) in tries {
        match probe.ask(words).await {
            Err(ProbeError::Denied(message)) if message.contains("key") => keys_denied = true,
            Err(ProbeError::Denied(_)) => missing.push(permission),
            // The server checks permissions first, so an error about another node or full memory proves the permission.
            Err(ProbeError::NotDone(why)) if permission == "+set" => {
                let change = "see the findings about memory, saving, replication and the cluster";
                writes = Finding::fail("writes", format!("writes are refused: {why}")).change(change);
            }
            Ok(_) | Err(_) => {}
        }
    }
    if server.group == Group::Cluster && probe.ask(&["CLUSTER", "SLOTS"]).await.is_err_and(|no| no.is_denied()) {
        missing.push("+cluster|slots");
    }
    let keys = format!("~{prefix}:*");
    if keys_denied {
        missing.insert(0, &keys);
    }
    let user = address.user().unwrap_or("default");
    let permissions = if missing.is_empty() {
        Finding::ok("rights", format!("user {user} has all permissions that the store needs under {prefix}:*"))
    } else {
        let lacks = missing.join(" ");
        Finding::fail("rights", format!("user {user} lacks {lacks}")).change(format!("ACL SETUSER {user} {lacks}"))
    };
    // Without the permission no write was tried.
    if keys_denied || missing.contains(&"+set") { vec![permissions] } else { vec![permissions, writes] }
}

/// The name of a key that this node owns. In a cluster, names are tried until the node does not redirect.
pub(super) async fn temporary_key(probe: &Probe, prefix: &str, server: &Server) -> String {
    let random = RandomState::new().build_hasher().finish();
    let name = |number: u32| format!("{prefix}:doctor:{{{random:016x}-{number}}}");
    if server.group == Group::Cluster {
        for number in 0..MAX_NAMES {
            let key = name(number);
            match probe.ask(&["GET", &key]).await {
                Err(error) if error.code() == "MOVED" => {}
                _ => return key,
            }
        }
    }
    name(0)
}

/// Its time to live in milliseconds, in case it is not deleted.
const TTL_MS: &str = "10000";
/// Finds a slot of a node that owns one in a hundred almost certainly.
const MAX_NAMES: u32 = 1_000;
