//! What one server is and how it is set up: version, memory, persistence.

use super::{Finding, facts::Facts};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let found = [version(facts), eviction(facts), memory(facts), persistence(facts), saving(facts)];
    found.into_iter().flatten().collect()
}

fn version(facts: &Facts) -> Option<Finding> {
    let Some((product, version)) = facts.product() else {
        let finding = Finding::note("version", "the server does not say what it is");
        return Some(finding.change("make sure that it is Redis 7.0 or newer, or Valkey"));
    };
    let named = format!("{product} {version}");
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    Some(match major {
        Some(major) if major < OLDEST_MAJOR => {
            let why = "scripts that refuse before they run, and replicate what they did, came with 7.0";
            Finding::fail("version", format!("{named}: {why}")).change("upgrade to Redis 7.0 or newer, or to Valkey")
        }
        Some(_) => Finding::ok("version", named),
        None => Finding::note("version", named).change("make sure that it is as good as Redis 7.0"),
    })
}

/// A key that is evicted is a limit that begins anew.
fn eviction(facts: &Facts) -> Option<Finding> {
    let policy = facts.setting("maxmemory-policy").or_else(|| facts.info("maxmemory_policy"))?;
    let most = facts.setting_number("maxmemory").or_else(|| facts.number("maxmemory")).unwrap_or(0);
    let limit = if most == 0 { "maxmemory is not set".to_owned() } else { format!("maxmemory {}", bytes(most)) };
    let evicted = facts.number("evicted_keys").unwrap_or(0);
    let so_far = if evicted == 0 { String::new() } else { format!("; {evicted} keys were evicted since it started") };
    let found = format!("{limit}, maxmemory-policy {policy}{so_far}");
    let advice = "set maxmemory-policy to noeviction (full: rules answer by on_store_failure) or to volatile-ttl (full: \
                  keys closest to their end go first)";
    Some(match policy {
        "noeviction" | "volatile-ttl" if evicted == 0 => Finding::ok("eviction", found),
        "noeviction" | "volatile-ttl" => {
            Finding::note("eviction", format!("{found}: each may have got one more burst"))
                .change("give it more memory")
        }
        _ if most == 0 => {
            Finding::warn("eviction", format!("{found}: nothing is evicted until maxmemory is set, then limits are"))
                .change(advice)
        }
        _ => {
            let found = format!("{found}: when memory is full, limits in use are forgotten and begin anew");
            Finding::warn("eviction", found).change(advice)
        }
    })
}

fn memory(facts: &Facts) -> Option<Finding> {
    let most = facts.number("maxmemory").filter(|most| *most > 0)?;
    let used = facts.number("used_memory")?;
    let percent = used.saturating_mul(100) / most;
    let found = format!("{percent}% of {} used", bytes(most));
    Some(if percent < NEARLY_FULL_PERCENT {
        Finding::ok("memory", found)
    } else {
        Finding::warn("memory", format!("{found}: nearly full")).change("raise maxmemory, or keep other data elsewhere")
    })
}

/// What a crash costs. A lost state is a key that is as good as new: at most one burst (B) more for each.
fn persistence(facts: &Facts) -> Option<Finding> {
    let appends = matches!(facts.setting("appendonly").or_else(|| facts.info("aof_enabled"))?, "yes" | "1");
    let replicas = facts.number("connected_slaves").unwrap_or(0);
    let snapshots = facts.setting("save").map(|save| !save.is_empty());
    Some(match (appends, facts.setting("appendfsync"), snapshots) {
        (true, Some("always"), _) => Finding::ok("persistence", "AOF, synced on every write: a crash loses nothing"),
        (true, Some("no"), _) => {
            let found = "AOF, synced when the system likes: a crash of the machine costs up to B more per key used in about 30 s";
            Finding::note("persistence", found).change("set appendfsync to everysec")
        }
        (true, _, _) => Finding::ok(
            "persistence",
            "AOF, synced every second: a crash costs up to B more per key used in its last 2 s",
        ),
        (false, _, Some(false)) if replicas > 0 => {
            let found = "none, with replicas: if it restarts before a replica leads, it is empty and empties them, \
                         which costs up to B more per key";
            Finding::warn("persistence", found).change("set appendonly to yes, or do not restart it automatically")
        }
        (false, _, Some(false)) => {
            let found = "none: a crash or restart loses everything, which costs up to B more per key";
            Finding::note("persistence", found).change("set appendonly to yes if that is too much")
        }
        (false, _, _) => {
            let found = "no AOF: a crash loses what came since the last snapshot, if there is one, which costs up to B \
                         more per key";
            Finding::note("persistence", found).change("set appendonly to yes if that is too much")
        }
    })
}

/// A server that cannot save takes no writes, unless it was told not to care.
fn saving(facts: &Facts) -> Option<Finding> {
    let failed = |field: &str| facts.info(field) == Some("err");
    let cares = facts.setting("stop-writes-on-bgsave-error") != Some("no");
    if facts.info("loading") == Some("1") {
        return Some(Finding::fail("saving", "it is loading its data and answers nothing").change("wait until it has"));
    }
    if failed("aof_last_write_status") || (failed("rdb_last_bgsave_status") && cares) {
        let found = "the last save failed, so writes are refused (MISCONF)";
        return Some(
            Finding::fail("saving", found).change("look for a full disk or missing rights; its log says which"),
        );
    }
    None
}

pub(super) fn bytes(number: u64) -> String {
    const UNITS: [(u32, &str); 3] = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    for (shift, unit) in UNITS {
        if number >= 1 << shift {
            let tenths = (u128::from(number) * 10) >> shift;
            return match tenths % 10 {
                0 => format!("{} {unit}", tenths / 10),
                tenth => format!("{}.{tenth} {unit}", tenths / 10),
            };
        }
    }
    format!("{number} B")
}

const OLDEST_MAJOR: u32 = 7;
const NEARLY_FULL_PERCENT: u64 = 90;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    fn level(finding: Option<Finding>) -> Option<Level> {
        finding.map(|finding| finding.level)
    }

    #[test]
    fn versions_before_7_do_not_do() {
        let of = |version| level(version_of(version));
        assert_eq!(of("6.2.14"), Some(Level::Fail));
        assert_eq!(of("7.0.0"), Some(Level::Ok));
        assert_eq!(of("10.1"), Some(Level::Ok));
        assert_eq!(of("unstable"), Some(Level::Note));
    }

    fn version_of(version: &str) -> Option<Finding> {
        super::version(&Facts::made_up(&[("redis_version", version)], &[]))
    }

    #[test]
    fn only_two_policies_keep_limits_in_use() {
        let of = |policy, evicted| {
            let info = [("evicted_keys", evicted), ("maxmemory", "1048576")];
            level(eviction(&Facts::made_up(&info, &[("maxmemory-policy", policy), ("maxmemory", "1048576")])))
        };
        assert_eq!(of("noeviction", "0"), Some(Level::Ok));
        assert_eq!(of("volatile-ttl", "0"), Some(Level::Ok));
        assert_eq!(of("volatile-ttl", "3"), Some(Level::Note));
        for policy in
            ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random"]
        {
            assert_eq!(of(policy, "0"), Some(Level::Warn), "{policy}");
        }
    }

    #[test]
    fn what_a_crash_costs_depends_on_what_is_saved() {
        let of = |appendonly, fsync, save, replicas| {
            let config = [("appendonly", appendonly), ("appendfsync", fsync), ("save", save)];
            level(persistence(&Facts::made_up(&[("connected_slaves", replicas)], &config)))
        };
        assert_eq!(of("yes", "everysec", "", "0"), Some(Level::Ok));
        assert_eq!(of("yes", "no", "", "0"), Some(Level::Note));
        assert_eq!(of("no", "everysec", "3600 1", "0"), Some(Level::Note));
        assert_eq!(of("no", "everysec", "", "0"), Some(Level::Note));
        assert_eq!(of("no", "everysec", "", "2"), Some(Level::Warn));
    }

    #[test]
    fn a_server_that_cannot_save_refuses_writes() {
        let failed = [("rdb_last_bgsave_status", "err")];
        assert_eq!(
            level(saving(&Facts::made_up(&failed, &[("stop-writes-on-bgsave-error", "yes")]))),
            Some(Level::Fail)
        );
        assert_eq!(level(saving(&Facts::made_up(&failed, &[("stop-writes-on-bgsave-error", "no")]))), None);
    }

    #[test]
    fn bytes_are_told_as_people_say_them() {
        assert_eq!([bytes(512), bytes(1_572_864), bytes(100 << 20)], ["512 B", "1.5 MiB", "100 MiB"]);
    }
}
