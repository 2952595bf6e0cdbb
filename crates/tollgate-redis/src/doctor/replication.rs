//! Who follows whom, how closely, and what a primary does that has lost its followers.

use super::{
    Finding,
    facts::Facts,
    places::{Group, Role, Server},
};

pub(super) fn check(server: &Server, facts: &Facts) -> Vec<Finding> {
    let found = match server.role {
        Role::Replica => [link(facts), None],
        Role::Primary => [followers(server, facts), writes_without_followers(server, facts)],
    };
    found.into_iter().flatten().collect()
}

/// A replica's own view.
fn link(facts: &Facts) -> Option<Finding> {
    let status = facts.info("master_link_status")?;
    let silent = facts.info("master_last_io_seconds_ago").unwrap_or("?");
    Some(match status {
        "up" => Finding::ok("replication", format!("follows its primary, last heard of {silent} s ago")),
        _ => {
            let found = "the link to its primary is down: what it would take over with grows old";
            Finding::warn("replication", found).change("see its log for why it cannot follow")
        }
    })
}

/// A primary's view of its replicas.
fn followers(server: &Server, facts: &Facts) -> Option<Finding> {
    let count = facts.number("connected_slaves")?;
    if count == 0 {
        return (server.group == Group::Watched).then(|| {
            let found = "no replica is connected: if this server is lost, nobody can take over";
            Finding::warn("replication", found).change("start a replica, or connect the one there is")
        });
    }
    let all: Vec<_> = (0..count).filter_map(|index| Follower::read(facts.info(&format!("slave{index}"))?)).collect();
    let lag = all.iter().map(|follower| follower.lag_s).max().unwrap_or(0);
    let behind = all.iter().filter(|follower| !follower.is_online || follower.lag_s > LONG_LAG_S).count();
    let found =
        format!("{count} connected replica{}, last heard of at most {lag} s ago", if count == 1 { "" } else { "s" });
    Some(if behind == 0 {
        let cost = "a failover loses what they have not got yet, up to B more per key";
        Finding::ok("replication", format!("{found}; {cost}"))
    } else {
        let found = format!("{found}; {behind} of them behind or not yet in step");
        Finding::warn("replication", found).change("look at its network and load before it has to take over")
    })
}

/// Cut off with its clients, a primary goes on admitting while another leads. In a cluster the node timeout ends that;
/// elsewhere only this setting does.
fn writes_without_followers(server: &Server, facts: &Facts) -> Option<Finding> {
    let wanted = facts.setting_number("min-replicas-to-write")?;
    let lag_s = facts.setting_number("min-replicas-max-lag").unwrap_or(0);
    if wanted > 0 && lag_s > 0 {
        let good = facts.number("min_slaves_good_slaves").unwrap_or(0);
        if facts.info("min_slaves_good_slaves").is_some() && good < wanted {
            let found =
                format!("min-replicas-to-write {wanted}, but {good} are in step: writes are refused (NOREPLICAS)");
            return Some(
                Finding::fail("split-brain", found).change("start the replicas, or lower min-replicas-to-write"),
            );
        }
        let found = format!(
            "min-replicas-to-write {wanted}, min-replicas-max-lag {lag_s} s: cut off, it admits for about {lag_s} s, up to B + \
             rate × {lag_s} s more per key"
        );
        return Some(Finding::ok("split-brain", found));
    }
    let has_replicas = facts.number("connected_slaves").unwrap_or(0) > 0 || server.group == Group::Watched;
    (server.group != Group::Cluster && has_replicas).then(|| {
        let found = "min-replicas-to-write 0: cut off from its replicas but not from clients, it admits without end while \
                     another leads";
        let change = "set min-replicas-to-write 1 and min-replicas-max-lag 10, which ends that after about 10 s";
        Finding::warn("split-brain", found).change(change)
    })
}

/// `ip=127.0.0.1,port=6380,state=online,offset=42,lag=0`
struct Follower {
    is_online: bool,
    lag_s: u64,
}

impl Follower {
    fn read(line: &str) -> Option<Self> {
        let field = |name: &str| line.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        Some(Self { is_online: field("state")? == "online", lag_s: field("lag")?.parse().ok()? })
    }
}

/// Replicas report every second.
const LONG_LAG_S: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{address::HostPort, doctor::Level};

    fn found(group: Group, role: Role, info: &[(&str, &str)], config: &[(&str, &str)]) -> Vec<(&'static str, Level)> {
        let server = Server { place: HostPort::new("h", 1), role, group };
        check(&server, &Facts::made_up(info, config)).iter().map(|finding| (finding.check, finding.level)).collect()
    }

    const FOLLOWED: [(&str, &str); 2] =
        [("connected_slaves", "1"), ("slave0", "ip=127.0.0.1,port=6380,state=online,offset=42,lag=1")];

    #[test]
    fn followers_without_a_bound_on_a_split_are_warned_of() {
        let none = [("min-replicas-to-write", "0"), ("min-replicas-max-lag", "10")];
        let expected = [("replication", Level::Ok), ("split-brain", Level::Warn)];
        assert_eq!(found(Group::Alone, Role::Primary, &FOLLOWED, &none), expected);
        assert_eq!(
            found(Group::Cluster, Role::Primary, &FOLLOWED, &none),
            expected[..1],
            "the node timeout is the bound"
        );
        let one = [("min-replicas-to-write", "1"), ("min-replicas-max-lag", "10")];
        assert_eq!(found(Group::Watched, Role::Primary, &FOLLOWED, &one)[1], ("split-brain", Level::Ok));
    }

    #[test]
    fn too_few_followers_refuse_writes() {
        let info = [("connected_slaves", "0"), ("min_slaves_good_slaves", "0")];
        let config = [("min-replicas-to-write", "1"), ("min-replicas-max-lag", "10")];
        assert_eq!(found(Group::Alone, Role::Primary, &info, &config), [("split-brain", Level::Fail)]);
    }

    #[test]
    fn a_follower_that_is_behind_is_warned_of() {
        let info = [("connected_slaves", "1"), ("slave0", "ip=127.0.0.1,port=6380,state=wait_bgsave,offset=0,lag=0")];
        assert_eq!(found(Group::Alone, Role::Primary, &info, &[]), [("replication", Level::Warn)]);
        assert_eq!(
            found(Group::Watched, Role::Replica, &[("master_link_status", "down")], &[]),
            [("replication", Level::Warn)]
        );
    }

    #[test]
    fn a_server_that_nobody_follows_has_nothing_to_tell() {
        let config = [("min-replicas-to-write", "0")];
        assert_eq!(found(Group::Alone, Role::Primary, &[("connected_slaves", "0")], &config), []);
        assert_eq!(found(Group::Watched, Role::Primary, &[("connected_slaves", "0")], &config).len(), 2);
    }
}
