//! What the account may do, and whether writes are taken: found out by doing all that the store does, on a throw-away key.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
};

use super::{
    Finding,
    places::{Group, Server},
    visit::{Trouble, Visit},
};
use crate::{address::Address, link::Script};

pub(super) async fn check(visit: &Visit, address: &Address, prefix: &str, server: &Server) -> Vec<Finding> {
    let key = throw_away_key(visit, prefix, server).await;
    let nothing = Script::new("#!lua\nreturn 1".to_owned());
    let tries: [(&str, &[&str]); 7] = [
        ("+ping", &["PING"]),
        ("+time", &["TIME"]),
        ("+set", &["SET", &key, "throw-away", "PX", LIVES_MS]),
        ("+get", &["GET", &key]),
        ("+eval", &["EVAL", nothing.text(), "1", &key]),
        ("+evalsha", &["EVALSHA", nothing.hash(), "1", &key]),
        ("+del", &["DEL", &key]),
    ];
    let (mut missing, mut keys_denied) = (Vec::new(), false);
    let mut writes = Finding::ok("writes", "a write was taken");
    for (right, words) in tries {
        match visit.ask(words).await {
            Err(Trouble::Denied(message)) if message.contains("key") => keys_denied = true,
            Err(Trouble::Denied(_)) => missing.push(right),
            // The right is checked before anything else: whoever hears of another node or a full memory has it.
            Err(Trouble::NotDone(why)) if right == "+set" => {
                let change = "see what is found about memory, saving, replication and the cluster";
                writes = Finding::fail("writes", format!("writes are refused: {why}")).change(change);
            }
            Ok(_) | Err(_) => {}
        }
    }
    if server.group == Group::Cluster && visit.ask(&["CLUSTER", "SLOTS"]).await.is_err_and(|no| no.is_denied()) {
        missing.push("+cluster|slots");
    }
    let keys = format!("~{prefix}:*");
    if keys_denied {
        missing.insert(0, &keys);
    }
    let user = address.credentials.user.as_deref().unwrap_or("default");
    let rights = if missing.is_empty() {
        Finding::ok("rights", format!("user {user} may do all the store needs under {prefix}:*"))
    } else {
        let lacks = missing.join(" ");
        Finding::fail("rights", format!("user {user} lacks {lacks}")).change(format!("ACL SETUSER {user} {lacks}"))
    };
    // Without the right to write nothing was tried.
    if keys_denied || missing.contains(&"+set") { vec![rights] } else { vec![rights, writes] }
}

/// A key that lives on this very node. Which of some names that is, only the node can say.
pub(super) async fn throw_away_key(visit: &Visit, prefix: &str, server: &Server) -> String {
    let word = RandomState::new().build_hasher().finish();
    let name = |number: u32| format!("{prefix}:doctor:{{{word:016x}-{number}}}");
    if server.group == Group::Cluster {
        for number in 0..MOST_NAMES {
            let key = name(number);
            match visit.ask(&["GET", &key]).await {
                Err(trouble) if trouble.code() == "MOVED" => {}
                _ => return key,
            }
        }
    }
    name(0)
}

/// In milliseconds, if it is not deleted before.
const LIVES_MS: &str = "10000";
/// A node that owns one slot in a hundred is found with near certainty.
const MOST_NAMES: u32 = 1_000;
