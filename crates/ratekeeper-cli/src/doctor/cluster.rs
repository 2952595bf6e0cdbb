//! Redis Cluster: members, slot coverage, and the bound on a split brain.

use std::collections::HashMap;

use ratekeeper_redis::{Address, link::HostPort};

use super::{
    Finding,
    discovery::{Group, Role, Server, Servers},
    probe::{Probe, ProbeError, items, text},
    server_info::ServerInfo,
};

/// Reads the members from the first seed that answers.
pub(super) async fn find(address: &Address, seeds: &[HostPort]) -> Result<Servers, ProbeError> {
    let mut last_error = ProbeError::NotDone("no node is named".to_owned());
    for seed in seeds {
        let probe = Probe::to(address, seed);
        match members(&probe, seed).await {
            Ok(members) => return Ok(Servers { findings: check(&probe, &members).await, servers: servers(members) }),
            Err(ProbeError::Refused { code, message }) if message.contains("cluster support disabled") => {
                let message = format!("{message}; connect with redis:// instead of redis+cluster://");
                return Err(ProbeError::Refused { code, message });
            }
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

/// How long an isolated primary keeps admitting requests.
pub(super) fn check_timeout(server: &Server, info: &ServerInfo) -> Option<Finding> {
    if server.group != Group::Cluster || server.role != Role::Primary {
        return None;
    }
    let timeout_ms = info.setting_number("cluster-node-timeout")?;
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

/// A member, as the asked node reports it.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Member {
    id: String,
    address: HostPort,
    primary: Option<String>,
    has_slots: bool,
    is_failing: bool,
}

async fn members(probe: &Probe, sender: &HostPort) -> Result<Vec<Member>, ProbeError> {
    match probe.ask(&["CLUSTER", "NODES"]).await {
        Ok(lines) => Ok(read_nodes(&text(&lines).unwrap_or_default(), sender)),
        // Every account has this permission, because the store needs it.
        Err(ProbeError::Denied(_)) => Ok(read_slots(&probe.ask(&["CLUSTER", "SLOTS"]).await?, sender)),
        Err(error) => Err(error),
    }
}

/// `<id> <ip:port@bus[,name]> <flags> <primary> <ping> <pong> <epoch> <link> <slots…>`
fn read_nodes(lines: &str, sender: &HostPort) -> Vec<Member> {
    let node = |line: &str| {
        let fields: Vec<_> = line.split(' ').collect();
        let &[id, address, flags, primary, _, _, _, _, ref slots @ ..] = fields.as_slice() else { return None };
        let flags: Vec<_> = flags.split(',').collect();
        if flags.contains(&"handshake") || flags.contains(&"noaddr") {
            return None;
        }
        let address = address.split(['@', ',']).next()?;
        Some(Member {
            id: id.to_owned(),
            address: HostPort::from_redirect(address, sender)?,
            primary: (primary != "-").then(|| primary.to_owned()),
            has_slots: slots.iter().any(|slot| !slot.is_empty() && !slot.starts_with('[')),
            is_failing: flags.iter().any(|flag| flag.starts_with("fail")),
        })
    };
    lines.lines().filter_map(node).collect()
}

/// `[ [first, last, [host, port, id, …], replicas…], … ]`
fn read_slots(answer: &redis::Value, sender: &HostPort) -> Vec<Member> {
    let mut found: HashMap<String, Member> = HashMap::new();
    for range in items(answer) {
        let mut primary = None;
        for node in items(range).iter().skip(2) {
            let [host, port, id, ..] = items(node) else { continue };
            let host = text(host).unwrap_or_default();
            let address = text(port).and_then(|port| HostPort::from_redirect(&format!("{host}:{port}"), sender));
            let (Some(address), Some(id)) = (address, text(id)) else { continue };
            let (own_primary, has_slots) = (primary.clone(), primary.is_none());
            primary.get_or_insert_with(|| id.clone());
            found.insert(id.clone(), Member { id, address, primary: own_primary, has_slots, is_failing: false });
        }
    }
    let mut members: Vec<_> = found.into_values().collect();
    members.sort_by(|one, other| one.address.cmp(&other.address));
    members
}

/// The members that hold keys: those with slots, and replicas.
fn servers(members: Vec<Member>) -> Vec<Server> {
    let server = |member: Member| {
        let role = if member.primary.is_some() { Role::Replica } else { Role::Primary };
        (member.has_slots || role == Role::Replica).then_some(Server {
            address: member.address,
            role,
            group: Group::Cluster,
        })
    };
    let mut servers: Vec<_> = members.into_iter().filter_map(server).collect();
    servers.sort_by_key(|server| (server.role == Role::Replica, server.address.clone()));
    servers
}

async fn check(probe: &Probe, members: &[Member]) -> Vec<Finding> {
    let mut findings = Vec::new();
    match probe.ask(&["CLUSTER", "INFO"]).await {
        Ok(info) => findings.push(state(&text(&info).unwrap_or_default())),
        Err(_) => findings.push(
            Finding::note("cluster", "cannot see its state: the account lacks the permission")
                .change("grant +cluster|info +cluster|nodes to the account used for doctor, or check by hand"),
        ),
    }
    let failing: Vec<_> =
        members.iter().filter(|member| member.is_failing).map(|member| member.address.to_string()).collect();
    if !failing.is_empty() {
        let found = format!("failing, as other members see it: {}", failing.join(", "));
        findings.push(Finding::warn("members", found).change("start them again, or remove them with CLUSTER FORGET"));
    }
    let has_replica = |primary: &&Member| members.iter().any(|member| member.primary.as_ref() == Some(&primary.id));
    let primaries = || members.iter().filter(|member| member.primary.is_none() && member.has_slots);
    let (all, alone) = (primaries().count(), primaries().filter(|primary| !has_replica(primary)).count());
    if alone > 0 {
        let found =
            format!("{alone} of {all} primaries have no replica: while one is down, so are the limits of its keys");
        findings.push(Finding::note("members", found).change("add a replica to each, or rely on on_store_failure"));
    } else if failing.is_empty() {
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
        _ if missing > 0 => Finding::fail("cluster", format!("{found}, {missing} not assigned"))
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
    use crate::doctor::Severity;

    #[test]
    fn cluster_nodes_is_parsed() {
        let lines = "aa 127.0.0.1:7000@17000,name myself,master - 0 17 3 connected 0-5 9 [7->-bb]\n\
                     bb :7001@17001 slave aa 0 17 3 connected\n\
                     cc 127.0.0.1:7002@17002 master,fail? - 0 17 3 connected\n\
                     dd :0@0 master,noaddr - 0 0 0 disconnected\n";
        let found = read_nodes(lines, &HostPort::new("10.0.0.9", 7009));
        let members: Vec<_> =
            found.iter().map(|node| (node.address.to_string(), node.has_slots, node.is_failing)).collect();
        assert_eq!(
            members,
            [
                ("127.0.0.1:7000".to_owned(), true, false),
                ("10.0.0.9:7001".to_owned(), false, false),
                ("127.0.0.1:7002".to_owned(), false, true)
            ]
        );
        assert_eq!(servers(found).len(), 2, "a node without keys is not examined");
    }

    #[test]
    fn every_slot_must_be_served() {
        let info = |state: &str, assigned: u32, ok: u32| {
            format!("cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\ncluster_slots_ok:{ok}\r\n")
        };
        assert_eq!(state(&info("ok", 16_384, 16_384)).level, Severity::Ok);
        assert_eq!(state(&info("ok", 16_384, 10_923)).level, Severity::Fail);
        assert_eq!(state(&info("fail", 16_384, 16_384)).level, Severity::Fail);
        assert_eq!(state(&info("ok", 16_383, 16_383)).level, Severity::Fail);
    }
}
