//! Version, memory and persistence of one server.

use super::{Finding, server_info::ServerInfo};

pub(super) fn check(info: &ServerInfo) -> Vec<Finding> {
    let found = [version(info), eviction(info), memory(info), persistence(info), saving(info)];
    found.into_iter().flatten().collect()
}

fn version(info: &ServerInfo) -> Option<Finding> {
    let Some((product, version)) = info.product() else {
        let finding = Finding::note("version", "the server does not report its version");
        return Some(finding.change("make sure that it is Redis 7.0 or newer, or Valkey"));
    };
    let named = format!("{product} {version}");
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    Some(match major {
        Some(major) if major < OLDEST_MAJOR => {
            let why = "it lacks script flags and effect replication, which came with 7.0";
            Finding::fail("version", format!("{named}: {why}")).change("upgrade to Redis 7.0 or newer, or to Valkey")
        }
        Some(_) => Finding::ok("version", named),
        None => Finding::note("version", named).change("make sure that it is compatible with Redis 7.0"),
    })
}

/// An evicted key starts again in its initial state.
fn eviction(info: &ServerInfo) -> Option<Finding> {
    let policy = info.setting("maxmemory-policy").or_else(|| info.info("maxmemory_policy"))?;
    let max = info.setting_number("maxmemory").or_else(|| info.number("maxmemory")).unwrap_or(0);
    let limit = if max == 0 { "maxmemory is not set".to_owned() } else { format!("maxmemory {}", bytes(max)) };
    let evicted = info.number("evicted_keys").unwrap_or(0);
    let history = if evicted == 0 { String::new() } else { format!("; {evicted} keys were evicted since it started") };
    let found = format!("{limit}, maxmemory-policy {policy}{history}");
    let advice = "set maxmemory-policy to noeviction (when full, on_store_failure decides) or to volatile-ttl (when full, \
                  keys that expire next are evicted first)";
    Some(match policy {
        "noeviction" | "volatile-ttl" if evicted == 0 => Finding::ok("eviction", found),
        "noeviction" | "volatile-ttl" => {
            Finding::note("eviction", format!("{found}: each of them may have admitted one more burst"))
                .change("raise maxmemory")
        }
        _ if max == 0 => Finding::warn(
            "eviction",
            format!("{found}: nothing is evicted until maxmemory is set; then keys in use are"),
        )
        .change(advice),
        _ => {
            let found = format!("{found}: when memory is full, keys in use are evicted and their limits start again");
            Finding::warn("eviction", found).change(advice)
        }
    })
}

fn memory(info: &ServerInfo) -> Option<Finding> {
    let max = info.number("maxmemory").filter(|max| *max > 0)?;
    let used = info.number("used_memory")?;
    let percent = used.saturating_mul(100) / max;
    let found = format!("{percent}% of {} used", bytes(max));
    Some(if percent < NEARLY_FULL_PERCENT {
        Finding::ok("memory", found)
    } else {
        Finding::warn("memory", format!("{found}: nearly full")).change("raise maxmemory, or keep other data elsewhere")
    })
}

/// The cost of a crash: a key whose state is lost admits at most one burst (B) more.
fn persistence(info: &ServerInfo) -> Option<Finding> {
    let appends = matches!(info.setting("appendonly").or_else(|| info.info("aof_enabled"))?, "yes" | "1");
    let replicas = info.number("connected_slaves").unwrap_or(0);
    let snapshots = info.setting("save").map(|save| !save.is_empty());
    Some(match (appends, info.setting("appendfsync"), snapshots) {
        (true, Some("always"), _) => Finding::ok("persistence", "AOF, synced on every write: a crash loses nothing"),
        (true, Some("no"), _) => {
            let found = "AOF, synced by the operating system: a crash of the machine costs up to B more per key used in the last 30 s or so";
            Finding::note("persistence", found).change("set appendfsync to everysec")
        }
        (true, _, _) => Finding::ok(
            "persistence",
            "AOF, synced every second: a crash costs up to B more per key used in its last 2 s",
        ),
        (false, _, Some(false)) if replicas > 0 => {
            let found = "none, with replicas: if it restarts before a failover, it is empty and its replicas follow, \
                         which costs up to B more per key";
            Finding::warn("persistence", found).change("set appendonly to yes, or do not restart it automatically")
        }
        (false, _, Some(false)) => {
            let found = "none: a crash or restart loses everything, which costs up to B more per key";
            Finding::note("persistence", found).change("set appendonly to yes if that is not acceptable")
        }
        (false, _, _) => {
            let found = "no AOF: a crash loses all writes since the last snapshot, if there is one, which costs up to B \
                         more per key";
            Finding::note("persistence", found).change("set appendonly to yes if that is not acceptable")
        }
    })
}

/// A server that cannot save refuses writes, unless `stop-writes-on-bgsave-error` is off.
fn saving(info: &ServerInfo) -> Option<Finding> {
    let failed = |field: &str| info.info(field) == Some("err");
    let stops_writes = info.setting("stop-writes-on-bgsave-error") != Some("no");
    if info.info("loading") == Some("1") {
        return Some(
            Finding::fail("saving", "it is loading its data and does not answer").change("wait until it is loaded"),
        );
    }
    if failed("aof_last_write_status") || (failed("rdb_last_bgsave_status") && stops_writes) {
        let found = "the last save failed, so writes are refused (MISCONF)";
        return Some(
            Finding::fail("saving", found).change("look for a full disk or missing permissions; its log has the cause"),
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
    use crate::doctor::Severity;

    fn level(finding: Option<Finding>) -> Option<Severity> {
        finding.map(|finding| finding.level)
    }

    #[test]
    fn versions_before_7_fail() {
        let of = |version| level(version_of(version));
        assert_eq!(of("6.2.14"), Some(Severity::Fail));
        assert_eq!(of("7.0.0"), Some(Severity::Ok));
        assert_eq!(of("10.1"), Some(Severity::Ok));
        assert_eq!(of("unstable"), Some(Severity::Note));
    }

    fn version_of(version: &str) -> Option<Finding> {
        super::version(&ServerInfo::of_parts(&[("redis_version", version)], &[]))
    }

    #[test]
    fn other_eviction_policies_are_a_warning() {
        let of = |policy, evicted| {
            let info = [("evicted_keys", evicted), ("maxmemory", "1048576")];
            level(eviction(&ServerInfo::of_parts(&info, &[("maxmemory-policy", policy), ("maxmemory", "1048576")])))
        };
        assert_eq!(of("noeviction", "0"), Some(Severity::Ok));
        assert_eq!(of("volatile-ttl", "0"), Some(Severity::Ok));
        assert_eq!(of("volatile-ttl", "3"), Some(Severity::Note));
        for policy in
            ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random"]
        {
            assert_eq!(of(policy, "0"), Some(Severity::Warn), "{policy}");
        }
    }

    #[test]
    fn persistence_is_judged_by_the_cost_of_a_crash() {
        let of = |appendonly, fsync, save, replicas| {
            let config = [("appendonly", appendonly), ("appendfsync", fsync), ("save", save)];
            level(persistence(&ServerInfo::of_parts(&[("connected_slaves", replicas)], &config)))
        };
        assert_eq!(of("yes", "everysec", "", "0"), Some(Severity::Ok));
        assert_eq!(of("yes", "no", "", "0"), Some(Severity::Note));
        assert_eq!(of("no", "everysec", "3600 1", "0"), Some(Severity::Note));
        assert_eq!(of("no", "everysec", "", "0"), Some(Severity::Note));
        assert_eq!(of("no", "everysec", "", "2"), Some(Severity::Warn));
    }

    #[test]
    fn a_failed_save_fails_if_it_stops_writes() {
        let failed = [("rdb_last_bgsave_status", "err")];
        assert_eq!(
            level(saving(&ServerInfo::of_parts(&failed, &[("stop-writes-on-bgsave-error", "yes")]))),
            Some(Severity::Fail)
        );
        assert_eq!(level(saving(&ServerInfo::of_parts(&failed, &[("stop-writes-on-bgsave-error", "no")]))), None);
    }

    #[test]
    fn bytes_are_written_in_units() {
        assert_eq!([bytes(512), bytes(1_572_864), bytes(100 << 20)], ["512 B", "1.5 MiB", "100 MiB"]);
    }
}
