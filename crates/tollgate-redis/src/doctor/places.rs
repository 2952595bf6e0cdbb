//! From an address to the servers behind it: the one that is named, those that sentinels know, those of a cluster.

use std::collections::BTreeSet;

use super::{
    Finding, cluster,
    facts::Facts,
    visit::{Trouble, Visit, items, pairs, text},
};
use crate::address::{Address, Credentials, HostPort, Topology};

/// Who there is, and what was found out on the way to them.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) servers: Vec<Server>,
    pub(super) findings: Vec<Finding>,
}

/// One server that keeps data.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Server {
    pub(super) place: HostPort,
    pub(super) role: Role,
    pub(super) group: Group,
}

/// What a server should be, according to those who know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    Primary,
    Replica,
}

/// What servers are to each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Group {
    Alone,
    Watched,
    Cluster,
}

/// Finds the servers. An error means that nobody could be asked.
pub(super) async fn find(address: &Address) -> Result<Places, Trouble> {
    match &address.topology {
        Topology::Standalone(place) => {
            match Visit::to(address, place).ask(&["PING"]).await {
                Ok(_) | Err(Trouble::Denied(_)) => {}
                Err(trouble) => return Err(trouble),
            }
            let server = Server { place: place.clone(), role: Role::Primary, group: Group::Alone };
            Ok(Places { servers: vec![server], findings: Vec::new() })
        }
        Topology::Sentinel { sentinels, primary_name, credentials } => {
            watched(address, sentinels, primary_name, credentials).await
        }
        Topology::Cluster { seeds } => cluster::find(address, seeds).await,
    }
}

/// A server that cannot be asked. Without a primary its keys are not limited; without a replica they still are.
pub(super) fn not_reached(server: &Server, trouble: &Trouble) -> Finding {
    let node = Some(server.place.to_string());
    match server.role {
        Role::Primary => Finding {
            node,
            ..Finding::fail("connection", format!("the primary cannot be asked: {trouble}"))
                .change("start it, let a replica take over, or see why it cannot be reached from here")
        },
        Role::Replica => Finding {
            node,
            ..Finding::warn(
                "connection",
                format!("the replica cannot be asked: {trouble}; it may not be there to take over"),
            )
            .change("start it, or see why it cannot be reached from here")
        },
    }
}

/// Whether it is what it is taken for.
pub(super) fn check_role(server: &Server, facts: &Facts) -> Finding {
    match (server.role, server.group, facts.is_primary()) {
        (_, Group::Alone, _) if facts.is_in_cluster() => {
            Finding::fail("role", "it is one of a cluster").change("connect with redis+cluster:// in place of redis://")
        }
        (Role::Primary, Group::Alone, Some(false)) => Finding::fail("role", "a replica, which takes no writes")
            .change("connect to its primary, or with redis+sentinel:// to those who know which that is"),
        (Role::Primary, _, Some(false)) => {
            Finding::warn("role", "named as primary, but it says it is a replica: a failover is under way")
                .change("look again in a minute")
        }
        (Role::Replica, _, Some(true)) => {
            Finding::warn("role", "named as replica, but it says it is a primary: it may take writes that will be lost")
                .change("look again in a minute; if it stays, make it follow the primary")
        }
        (Role::Primary, ..) => Finding::ok("role", "primary"),
        (Role::Replica, ..) => Finding::ok("role", "replica"),
    }
}

async fn watched(
    address: &Address,
    sentinels: &[HostPort],
    name: &str,
    credentials: &Credentials,
) -> Result<Places, Trouble> {
    let door = Address { credentials: credentials.clone(), database: 0, ..address.clone() };
    let (mut opinions, mut silent, mut quorum) = (Vec::new(), Vec::new(), Err(String::new()));
    let mut replicas = BTreeSet::new();
    let mut why = Trouble::NotDone("no sentinel is named".to_owned());
    for sentinel in sentinels {
        let visit = Visit::to(&door, sentinel);
        match primary_according_to(&visit, name).await {
            Ok(primary) => {
                opinions.push(primary);
                replicas.extend(replicas_according_to(&visit, name).await);
                if quorum.is_err() {
                    quorum = visit.ask(&["SENTINEL", "CKQUORUM", name]).await.map(|_| ()).map_err(|no| no.to_string());
                }
            }
            Err(trouble) => {
                silent.push(format!("{sentinel}: {trouble}"));
                why = trouble;
            }
        }
    }
    let Some(primary) = opinions.first().cloned() else { return Err(why) };
    replicas.remove(&primary);

    let mut findings = Vec::new();
    let agree = opinions.iter().all(|opinion| *opinion == primary);
    let told = format!("{} of {} sentinels answer and name {primary}", opinions.len(), sentinels.len());
    findings.push(match (agree, quorum) {
        (false, _) => Finding::warn("sentinels", "the sentinels name different primaries: a failover is under way")
            .change("look again in a minute"),
        (true, Err(no)) => Finding::warn("sentinels", format!("{told}, but could not agree on another: {no}"))
            .change("start the sentinels that are missing"),
        (true, Ok(())) if !silent.is_empty() => {
            Finding::warn("sentinels", format!("{told}; {}", silent.join("; "))).change("start them, or leave them out")
        }
        (true, Ok(())) if sentinels.len() < 3 => Finding::note("sentinels", format!("{told}; fewer than 3 are named"))
            .change("name all of them in the address, so that any may be down"),
        (true, Ok(())) => Finding::ok("sentinels", told),
    });
    let server = |place, role| Server { place, role, group: Group::Watched };
    let mut servers = vec![server(primary, Role::Primary)];
    servers.extend(replicas.into_iter().map(|place| server(place, Role::Replica)));
    Ok(Places { servers, findings })
}

async fn primary_according_to(visit: &Visit, name: &str) -> Result<HostPort, Trouble> {
    let answer = visit.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]).await?;
    let unknown = || Trouble::NotDone(format!("the sentinel watches no primary named \"{name}\""));
    let [host, port] = items(&answer) else { return Err(unknown()) };
    let place = text(host).zip(text(port).and_then(|port| port.parse().ok()));
    place.map(|(host, port)| HostPort::new(&host, port)).ok_or_else(unknown)
}

async fn replicas_according_to(visit: &Visit, name: &str) -> Vec<HostPort> {
    let Ok(answer) = visit.ask(&["SENTINEL", "REPLICAS", name]).await else { return Vec::new() };
    let place = |replica| {
        let (mut host, mut port) = (None, None);
        for (field, value) in pairs(replica) {
            match field.as_str() {
                "ip" => host = Some(value),
                "port" => port = value.parse().ok(),
                _ => {}
            }
        }
        Some(HostPort::new(&host?, port?))
    };
    items(&answer).iter().filter_map(place).collect()
}
