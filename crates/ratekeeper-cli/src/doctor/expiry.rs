//! Keys without a TTL. The store never writes one, so each was changed by another program and may be limited for ever.

use ratekeeper_redis::link::{KEYS_PER_STEP, Scan, beginning_with};
use redis::{Value, cmd};

use super::{
    Finding,
    probe::{Probe, ProbeError},
};

/// Samples the keys of one node; the bounds keep the load low.
pub(super) async fn check(probe: &Probe, prefix: &str) -> Option<Finding> {
    Some(match count(probe, prefix).await {
        Ok(ExpiryCount { without_ttl: 0, seen, is_all }) => {
            Finding::ok("expiry", format!("each of {} expires", sample(seen, prefix, is_all)))
        }
        Ok(ExpiryCount { without_ttl, seen, is_all }) => {
            let found =
                format!("{without_ttl} of {} have no TTL, which ratekeeper never writes", sample(seen, prefix, is_all));
            Finding::warn("expiry", found).change("find the program that wrote or persisted them, and delete them")
        }
        Err(ProbeError::Denied(_)) => {
            Finding::note("expiry", format!("cannot see whether keys under {prefix}:* expire"))
                .change("grant +scan +pttl to the account used for doctor, or check by hand")
        }
        Err(error) => Finding::note("expiry", format!("keys could not be sampled: {error}")),
    })
}

struct ExpiryCount {
    without_ttl: usize,
    seen: usize,
    is_all: bool,
}

async fn count(probe: &Probe, prefix: &str) -> Result<ExpiryCount, ProbeError> {
    let mut scan = Scan::new(beginning_with(&format!("{prefix}:")));
    let mut counted = ExpiryCount { without_ttl: 0, seen: 0, is_all: false };
    for _ in 0..MAX_STEPS {
        let Some(step) = scan.step() else { break };
        for name in scan.read(&probe.send(&step).await?) {
            if counted.seen == MAX_KEYS {
                return Ok(counted);
            }
            counted.seen += 1;
            if let Value::Int(NO_TTL) = probe.send(cmd("PTTL").arg(name)).await? {
                counted.without_ttl += 1;
            }
        }
    }
    counted.is_all = scan.step().is_none();
    Ok(counted)
}

fn sample(seen: usize, prefix: &str, is_all: bool) -> String {
    let part = if is_all { "" } else { "the first " };
    format!("{part}{seen} keys under {prefix}:*")
}

/// Keys whose TTL is read.
const MAX_KEYS: usize = 1_000;
/// Bounds the scan if few keys have the prefix.
const MAX_STEPS: usize = 100_000 / KEYS_PER_STEP;
const NO_TTL: i64 = -1;
