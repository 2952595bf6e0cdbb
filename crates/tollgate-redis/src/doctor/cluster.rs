//! A cluster as its nodes see it: who is there, whether every slot is served, and how long a split may last.

use std::collections::HashMap;

use super::{
    Finding,
    facts::Facts,
    places::{Group, Places, Role, Server},
    visit::{Trouble, Visit, items, text},
};
use crate::address::{Address, HostPort};

/// Asks one seed after the other; the first to answer is believed.
pub(super) async fn find(address: &Address, seeds: &[HostPort]) -> Result<Places, Trouble> {
    let mut why = Trouble::NotDone("no node is named".to_owned());
    for seed in seeds {
        let visit = Visit::to(address, seed);
        match members(&visit, seed).await {
            Ok(members) => return Ok(Places { findings: check(&visit, &members).await, servers: servers(members) }),
            Err(Trouble::Refused { code, message }) if message.contains("cluster support disabled") => {
                let message = format!("{message}; connect with redis:// in place of redis+cluster://");
                return Err(Trouble::Refused { code, message });
            }
            Err(trouble) => why = trouble,
        }
    }
    Err(why)
}

/// How long a primary that is cut off goes on admitting.
pub(super) fn check_timeout(server: &Server, facts: &Facts) -> Option<Finding> {
    if server.group != Group::Cluster || server.role != Role::Primary {
        return None;
    }
    let timeout_ms = facts.setting_number("cluster-node-timeout")?;
    let found = format!(
        "cluster-node-timeout {timeout_ms} ms: a primary cut off from the others admits for that long, up to B + rate × {} s \
         more per key",
        timeout_ms.div_ceil(1_000)
    );
    Some(if timeout_ms <= SHORT_TIMEOUT_MS {
        Finding::ok("split-brain", found)
    } else {
        Finding::note("split-brain", found)
            .change(format!("{SHORT_TIMEOUT_MS} would bound it tighter, if the network is steady"))
    })
}

/// One node in the eyes of another.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Member {
    id: String,
    place: HostPort,
    follows: Option<String>,
    has_slots: bool,
    is_thought_dead: bool,
}

async fn members(visit: &Visit, teller: &HostPort) -> Result<Vec<Member>, Trouble> {
    match visit.ask(&["CLUSTER", "NODES"]).await {
        Ok(lines) => Ok(read_nodes(&text(&lines).unwrap_or_default(), teller)),
        // The store needs this one, so every account has it.
        Err(Trouble::Denied(_)) => Ok(read_slots(&visit.ask(&["CLUSTER", "SLOTS"]).await?, teller)),
        Err(trouble) => Err(trouble),
    }
}

/// `<id> <ip:port@bus[,name]> <flags> <primary> <ping> <pong> <epoch> <link> <slots…>`
fn read_nodes(lines: &str, teller: &HostPort) -> Vec<Member> {
    let node = |line: &str| {
        let fields: Vec<_> = line.split(' ').collect();
        let &[id, address, flags, primary, _, _, _, _, ref slots @ ..] = fields.as_slice() else { return None };
        let flags: Vec<_> = flags.split(',').collect();
        if flags.contains(&"handshake") || flags.contains(&"noaddr") {
            return None;
        }
        let place = address.split(['@', ',']).next()?;
        Some(Member {
            id: id.to_owned(),
            place: HostPort::from_redirect(place, teller)?,
            follows: (primary != "-").then(|| primary.to_owned()),
            has_slots: slots.iter().any(|slot| !slot.is_empty() && !slot.starts_with('[')),
            is_thought_dead: flags.iter().any(|flag| flag.starts_with("fail")),
        })
    };
    lines.lines().filter_map(node).collect()
}

/// `[ [first, last, [host, port, id, …], replicas…], … ]`
fn read_slots(answer: &redis::Value, teller: &HostPort) -> Vec<Member> {
    let mut found: HashMap<String, Member> = HashMap::new();
    for range in items(answer) {
        let mut primary = None;
        for node in items(range).iter().skip(2) {
            let [host, port, id, ..] = items(node) else { continue };
            let host = text(host).unwrap_or_default();
            let place = text(port).and_then(|port| HostPort::from_redirect(&format!("{host}:{port}"), teller));
            let (Some(place), Some(id)) = (place, text(id)) else { continue };
            let (follows, has_slots) = (primary.clone(), primary.is_none());
            primary.get_or_insert_with(|| id.clone());
            found.insert(id.clone(), Member { id, place, follows, has_slots, is_thought_dead: false });
        }
    }
    let mut members: Vec<_> = found.into_values().collect();
    members.sort_by(|one, other| one.place.cmp(&other.place));
    members
}

/// Nodes without slots that follow nobody keep no keys.
fn servers(members: Vec<Member>) -> Vec<Server> {
    let server = |member: Member| {
        let role = if member.follows.is_some() { Role::Replica } else { Role::Primary };
        (member.has_slots || role == Role::Replica).then_some(Server {
            place: member.place,
            role,
            group: Group::Cluster,
        })
    };
    let mut servers: Vec<_> = members.into_iter().filter_map(server).collect();
    servers.sort_by_key(|server| (server.role == Role::Replica, server.place.clone()));
    servers
}

async fn check(visit: &Visit, members: &[Member]) -> Vec<Finding> {
    let mut findings = Vec::new();
    match visit.ask(&["CLUSTER", "INFO"]).await {
        Ok(info) => findings.push(state(&text(&info).unwrap_or_default())),
        Err(_) => findings.push(
            Finding::note("cluster", "cannot see its state: the account may not ask")
                .change("grant +cluster|info +cluster|nodes to the account used for doctor, or check by hand"),
        ),
    }
    let dead: Vec<_> =
        members.iter().filter(|member| member.is_thought_dead).map(|member| member.place.to_string()).collect();
    if !dead.is_empty() {
        let found = format!("thought dead by the others: {}", dead.join(", "));
        findings.push(Finding::warn("members", found).change("start them again, or remove them with CLUSTER FORGET"));
    }
    let is_followed = |primary: &&Member| members.iter().any(|member| member.follows.as_ref() == Some(&primary.id));
    let primaries = || members.iter().filter(|member| member.follows.is_none() && member.has_slots);
    let (all, alone) = (primaries().count(), primaries().filter(|primary| !is_followed(primary)).count());
    if alone > 0 {
        let found =
            format!("{alone} of {all} primaries have no replica: while one is down, so are the limits of its keys");
        findings
            .push(Finding::note("members", found).change("add a replica to each, or be content with on_store_failure"));
    } else if dead.is_empty() {
        findings.push(Finding::ok("members", format!("{all} primaries, each with a replica")));
    }
    findings
}

fn state(info: &str) -> Finding {
    let field =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end);
    let number = |name: &str| field(name).and_then(|digits| digits.parse::<u32>().ok()).unwrap_or(0);
    let (assigned, ok) = (number("cluster_slots_assigned"), number("cluster_slots_ok"));
    let found = format!("cluster_state {}, {ok} of {SLOTS} slots served", field("cluster_state").unwrap_or("unknown"));
    let missing = SLOTS.saturating_sub(assigned);
    match field("cluster_state") {
        _ if missing > 0 => Finding::fail("cluster", format!("{found}, {missing} assigned to nobody"))
            .change("assign them: redis-cli --cluster fix host:port"),
        Some("ok") if ok == SLOTS => Finding::ok("cluster", found),
        _ => Finding::fail("cluster", format!("{found}: keys in the others cannot be limited by the cluster"))
            .change("start the nodes that own them, or let their replicas take over"),
    }
}

const SLOTS: u32 = 16_384;
const SHORT_TIMEOUT_MS: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn nodes_are_read_with_all_their_oddities() {
        let lines = "aa 127.0.0.1:7000@17000,name myself,master - 0 17 3 connected 0-5 9 [7->-bb]\n\
                     bb :7001@17001 slave aa 0 17 3 connected\n\
                     cc 127.0.0.1:7002@17002 master,fail? - 0 17 3 connected\n\
                     dd :0@0 master,noaddr - 0 0 0 disconnected\n";
        let found = read_nodes(lines, &HostPort::new("10.0.0.9", 7009));
        let told: Vec<_> =
            found.iter().map(|node| (node.place.to_string(), node.has_slots, node.is_thought_dead)).collect();
        assert_eq!(
            told,
            [
                ("127.0.0.1:7000".to_owned(), true, false),
                ("10.0.0.9:7001".to_owned(), false, false),
                ("127.0.0.1:7002".to_owned(), false, true)
            ]
        );
        assert_eq!(servers(found).len(), 2, "a node that keeps nothing is not examined");
    }

    #[test]
    fn every_slot_counts() {
        let info = |state: &str, assigned: u32, ok: u32| {
            format!("cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\ncluster_slots_ok:{ok}\r\n")
        };
        assert_eq!(state(&info("ok", 16_384, 16_384)).level, Level::Ok);
        assert_eq!(state(&info("ok", 16_384, 10_923)).level, Level::Fail);
        assert_eq!(state(&info("fail", 16_384, 16_384)).level, Level::Fail);
        assert_eq!(state(&info("ok", 16_383, 16_383)).level, Level::Fail);
    }
}
