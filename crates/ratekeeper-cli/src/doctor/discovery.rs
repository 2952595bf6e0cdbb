//! Discovery of the servers behind an address: a single server, those that sentinels report, or the members of a cluster.

use std::collections::BTreeSet;

use ratekeeper_redis::{
    Address,
    link::{HostPort, Topology},
};

use super::{
    Finding, cluster,
    probe::{Probe, ProbeError, items, pairs, text},
    server_info::ServerInfo,
};

/// The servers, and the findings of the discovery.
#[derive(Debug, Default)]
pub(super) struct Servers {
    pub(super) servers: Vec<Server>,
    pub(super) findings: Vec<Finding>,
}

/// A server that holds keys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Server {
    pub(super) address: HostPort,
    pub(super) role: Role,
    pub(super) group: Group,
}

/// The role of a server, as sentinels or the cluster report it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    Primary,
    Replica,
}

/// The kind of deployment a server belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Group {
    Alone,
    Sentinel,
    Cluster,
}

/// Finds the servers. An error means that no server answered.
pub(super) async fn find(address: &Address) -> Result<Servers, ProbeError> {
    match address.topology() {
        Topology::Standalone(server) => {
            match Probe::to(address, server).ask(&["PING"]).await {
                Ok(_) | Err(ProbeError::Denied(_)) => {}
                Err(error) => return Err(error),
            }
            let server = Server { address: server.clone(), role: Role::Primary, group: Group::Alone };
            Ok(Servers { servers: vec![server], findings: Vec::new() })
        }
        Topology::Sentinel { sentinels, primary_name, .. } => by_sentinels(address, sentinels, primary_name).await,
        Topology::Cluster { seeds } => cluster::find(address, seeds).await,
        _ => Err(ProbeError::NotDone("servers of this kind of address cannot be examined".to_owned())),
    }
}

/// A server that does not answer. Limits fail without a primary, and hold without a replica.
pub(super) fn not_reached(server: &Server, error: &ProbeError) -> Finding {
    let node = Some(server.address.to_string());
    match server.role {
        Role::Primary => Finding {
            node,
            ..Finding::fail("connection", format!("the primary does not answer: {error}"))
                .change("start it, fail over to a replica, or see why it cannot be reached from here")
        },
        Role::Replica => Finding {
            node,
            ..Finding::warn(
                "connection",
                format!("the replica does not answer: {error}; it may be missing in a failover"),
            )
            .change("start it, or see why it cannot be reached from here")
        },
    }
}

/// Compares the reported role with the one the server states.
pub(super) fn check_role(server: &Server, info: &ServerInfo) -> Finding {
    match (server.role, server.group, info.is_primary()) {
        (_, Group::Alone, _) if info.is_in_cluster() => Finding::fail("role", "it is a member of a cluster")
            .change("connect with redis+cluster:// instead of redis://"),
        (Role::Primary, Group::Alone, Some(false)) => Finding::fail("role", "a replica, which accepts no writes")
            .change("connect to its primary, or to the sentinels with redis+sentinel://"),
        (Role::Primary, _, Some(false)) => {
            Finding::warn("role", "reported as primary, but it is a replica: a failover is in progress")
                .change("run doctor again in a minute")
        }
        (Role::Replica, _, Some(true)) => {
            Finding::warn("role", "reported as replica, but it is a primary: it may accept writes that will be lost")
                .change("run doctor again in a minute; if it is still so, make it replicate the primary")
        }
        (Role::Primary, ..) => Finding::ok("role", "primary"),
        (Role::Replica, ..) => Finding::ok("role", "replica"),
    }
}

async fn by_sentinels(address: &Address, sentinels: &[HostPort], name: &str) -> Result<Servers, ProbeError> {
    let (mut primaries, mut silent, mut quorum) = (Vec::new(), Vec::new(), Err(String::new()));
    let mut replicas = BTreeSet::new();
    let mut last_error = ProbeError::NotDone("no sentinel is named".to_owned());
    for sentinel in sentinels {
        let probe = Probe::to_sentinel(address, sentinel);
        match primary_of(&probe, name).await {
            Ok(primary) => {
                primaries.push(primary);
                replicas.extend(replicas_of(&probe, name).await);
                if quorum.is_err() {
                    quorum = probe.ask(&["SENTINEL", "CKQUORUM", name]).await.map(|_| ()).map_err(|no| no.to_string());
                }
            }
            Err(error) => {
                silent.push(format!("{sentinel}: {error}"));
                last_error = error;
            }
        }
    }
    let Some(primary) = primaries.first().cloned() else { return Err(last_error) };
    replicas.remove(&primary);

    let mut findings = Vec::new();
    let agree = primaries.iter().all(|other| *other == primary);
    let answered = format!("{} of {} sentinels answer and name {primary}", primaries.len(), sentinels.len());
    findings.push(match (agree, quorum) {
        (false, _) => Finding::warn("sentinels", "the sentinels name different primaries: a failover is in progress")
            .change("run doctor again in a minute"),
        (true, Err(no)) => Finding::warn("sentinels", format!("{answered}, but a failover would have no quorum: {no}"))
            .change("start the sentinels that are missing"),
        (true, Ok(())) if !silent.is_empty() => {
            Finding::warn("sentinels", format!("{answered}; {}", silent.join("; ")))
                .change("start them, or remove them from the address")
        }
        (true, Ok(())) if sentinels.len() < 3 => {
            Finding::note("sentinels", format!("{answered}; fewer than 3 are named"))
                .change("name all of them in the address, so that any of them may be down")
        }
        (true, Ok(())) => Finding::ok("sentinels", answered),
    });
    let server = |address, role| Server { address, role, group: Group::Sentinel };
    let mut servers = vec![server(primary, Role::Primary)];
    servers.extend(replicas.into_iter().map(|address| server(address, Role::Replica)));
    Ok(Servers { servers, findings })
}

async fn primary_of(probe: &Probe, name: &str) -> Result<HostPort, ProbeError> {
    let answer = probe.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]).await?;
    let unknown = || ProbeError::NotDone(format!("the sentinel watches no primary named \"{name}\""));
    let [host, port] = items(&answer) else { return Err(unknown()) };
    let address = text(host).zip(text(port).and_then(|port| port.parse().ok()));
    address.map(|(host, port)| HostPort::new(&host, port)).ok_or_else(unknown)
}

async fn replicas_of(probe: &Probe, name: &str) -> Vec<HostPort> {
    let Ok(answer) = probe.ask(&["SENTINEL", "REPLICAS", name]).await else { return Vec::new() };
    let address = |replica| {
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
    items(&answer).iter().filter_map(address).collect()
}
