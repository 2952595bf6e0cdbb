//! Replication: links, lag, and writes of a primary without replicas.

use super::{
    Finding,
    discovery::{Group, Role, Server},
    server_info::ServerInfo,
};

pub(super) fn check(server: &Server, info: &ServerInfo) -> Vec<Finding> {
    let found = match server.role {
        Role::Replica => [link(info), None],
        Role::Primary => [replicas(server, info), split_brain(server, info)],
    };
    found.into_iter().flatten().collect()
}

/// The link to the primary, as the replica reports it.
fn link(info: &ServerInfo) -> Option<Finding> {
    let status = info.info("master_link_status")?;
    let silent = info.info("master_last_io_seconds_ago").unwrap_or("?");
    Some(match status {
        "up" => Finding::ok("replication", format!("replicates its primary, last data {silent} s ago")),
        _ => {
            let found = "the link to its primary is down: its data grows stale";
            Finding::warn("replication", found).change("see its log for the cause")
        }
    })
}

/// The replicas, as the primary reports them.
fn replicas(server: &Server, info: &ServerInfo) -> Option<Finding> {
    let count = info.number("connected_slaves")?;
    if count == 0 {
        return (server.group == Group::Sentinel).then(|| {
            let found = "no replica is connected: if this server is lost, no failover is possible";
            Finding::warn("replication", found).change("start a replica, or connect the existing one")
        });
    }
    let all: Vec<_> = (0..count).filter_map(|index| ReplicaLine::parse(info.info(&format!("slave{index}"))?)).collect();
    let lag = all.iter().map(|replica| replica.lag_s).max().unwrap_or(0);
    let behind = all.iter().filter(|replica| !replica.is_online || replica.lag_s > LONG_LAG_S).count();
    let found = format!("{count} connected replica{}, lag at most {lag} s", if count == 1 { "" } else { "s" });
    Some(if behind == 0 {
        let cost = "a failover loses writes that they do not have yet, up to B more per key";
        Finding::ok("replication", format!("{found}; {cost}"))
    } else {
        let found = format!("{found}; {behind} of them lagging or not synchronized");
        Finding::warn("replication", found).change("look at network and load of the replica before a failover needs it")
    })
}

/// An isolated primary keeps admitting requests of its clients while another one is elected. In a cluster the node timeout
/// ends that, elsewhere only `min-replicas-to-write`.
fn split_brain(server: &Server, info: &ServerInfo) -> Option<Finding> {
    let wanted = info.setting_number("min-replicas-to-write")?;
    let lag_s = info.setting_number("min-replicas-max-lag").unwrap_or(0);
    if wanted > 0 && lag_s > 0 {
        let good = info.number("min_slaves_good_slaves").unwrap_or(0);
        if info.info("min_slaves_good_slaves").is_some() && good < wanted {
            let found =
                format!("min-replicas-to-write {wanted}, but {good} are synchronized: writes are refused (NOREPLICAS)");
            return Some(
                Finding::fail("split-brain", found).change("start the replicas, or lower min-replicas-to-write"),
            );
        }
        let found = format!(
            "min-replicas-to-write {wanted}, min-replicas-max-lag {lag_s} s: isolated, it admits for about {lag_s} s, up to B + \
             rate × {lag_s} s more per key"
        );
        return Some(Finding::ok("split-brain", found));
    }
    let has_replicas = info.number("connected_slaves").unwrap_or(0) > 0 || server.group == Group::Sentinel;
    (server.group != Group::Cluster && has_replicas).then(|| {
        let found = "min-replicas-to-write 0: isolated from its replicas but not from clients, it admits without end while \
                     another primary is elected";
        let change = "set min-replicas-to-write 1 and min-replicas-max-lag 10, which ends that after about 10 s";
        Finding::warn("split-brain", found).change(change)
    })
}

/// `ip=127.0.0.1,port=6380,state=online,offset=42,lag=0`
struct ReplicaLine {
    is_online: bool,
    lag_s: u64,
}

impl ReplicaLine {
    fn parse(line: &str) -> Option<Self> {
        let field = |name: &str| line.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        Some(Self { is_online: field("state")? == "online", lag_s: field("lag")?.parse().ok()? })
    }
}

/// Replicas report every second.
const LONG_LAG_S: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use ratekeeper_redis::link::HostPort;

    use crate::doctor::Severity;

    fn found(
        group: Group,
        role: Role,
        info: &[(&str, &str)],
        config: &[(&str, &str)],
    ) -> Vec<(&'static str, Severity)> {
        let server = Server { address: HostPort::new("h", 1), role, group };
        check(&server, &ServerInfo::of_parts(info, config))
            .iter()
            .map(|finding| (finding.check, finding.level))
            .collect()
    }

    const FOLLOWED: [(&str, &str); 2] =
        [("connected_slaves", "1"), ("slave0", "ip=127.0.0.1,port=6380,state=online,offset=42,lag=1")];

    #[test]
    fn followers_without_a_bound_on_a_split_are_warned_of() {
        let none = [("min-replicas-to-write", "0"), ("min-replicas-max-lag", "10")];
        let expected = [("replication", Severity::Ok), ("split-brain", Severity::Warn)];
        assert_eq!(found(Group::Alone, Role::Primary, &FOLLOWED, &none), expected);
        assert_eq!(
            found(Group::Cluster, Role::Primary, &FOLLOWED, &none),
            expected[..1],
            "the node timeout is the bound"
        );
        let one = [("min-replicas-to-write", "1"), ("min-replicas-max-lag", "10")];
        assert_eq!(found(Group::Sentinel, Role::Primary, &FOLLOWED, &one)[1], ("split-brain", Severity::Ok));
    }

    #[test]
    fn too_few_followers_refuse_writes() {
        let info = [("connected_slaves", "0"), ("min_slaves_good_slaves", "0")];
        let config = [("min-replicas-to-write", "1"), ("min-replicas-max-lag", "10")];
        assert_eq!(found(Group::Alone, Role::Primary, &info, &config), [("split-brain", Severity::Fail)]);
    }

    #[test]
    fn a_lagging_replica_is_a_warning() {
        let info = [("connected_slaves", "1"), ("slave0", "ip=127.0.0.1,port=6380,state=wait_bgsave,offset=0,lag=0")];
        assert_eq!(found(Group::Alone, Role::Primary, &info, &[]), [("replication", Severity::Warn)]);
        assert_eq!(
            found(Group::Sentinel, Role::Replica, &[("master_link_status", "down")], &[]),
            [("replication", Severity::Warn)]
        );
    }

    #[test]
    fn a_server_without_replicas_has_no_finding() {
        let config = [("min-replicas-to-write", "0")];
        assert_eq!(found(Group::Alone, Role::Primary, &[("connected_slaves", "0")], &config), []);
        assert_eq!(found(Group::Sentinel, Role::Primary, &[("connected_slaves", "0")], &config).len(), 2);
    }
}
