//! Keys of ours without a TTL. The store writes none, so each was tampered with, and its limit may never end.

use redis::{Value, cmd};

use super::{
    Finding,
    visit::{Trouble, Visit},
};
use crate::scan::{KEYS_PER_STEP, Scan, beginning_with};

/// Looks at some keys of one node: enough to notice, not enough to be noticed.
pub(super) async fn check(visit: &Visit, prefix: &str) -> Option<Finding> {
    Some(match count(visit, prefix).await {
        Ok(Counted { endless: 0, seen, is_all }) => {
            Finding::ok("expiry", format!("each of {} expires", told(seen, prefix, is_all)))
        }
        Ok(Counted { endless, seen, is_all }) => {
            let found = format!("{endless} of {} have no TTL, which tollgate never writes", told(seen, prefix, is_all));
            Finding::warn("expiry", found).change("find out who wrote or persisted them, and delete them")
        }
        Err(Trouble::Denied(_)) => Finding::note("expiry", format!("cannot see whether keys under {prefix}:* expire"))
            .change("grant +scan +pttl to the account used for doctor, or check by hand"),
        Err(trouble) => Finding::note("expiry", format!("could not be looked at: {trouble}")),
    })
}

struct Counted {
    endless: usize,
    seen: usize,
    is_all: bool,
}

async fn count(visit: &Visit, prefix: &str) -> Result<Counted, Trouble> {
    let mut scan = Scan::new(beginning_with(&format!("{prefix}:")));
    let mut counted = Counted { endless: 0, seen: 0, is_all: false };
    for _ in 0..MOST_STEPS {
        let Some(step) = scan.step() else { break };
        for name in scan.read(&visit.send(&step).await?) {
            if counted.seen == MOST_KEYS {
                return Ok(counted);
            }
            counted.seen += 1;
            if let Value::Int(NO_TTL) = visit.send(cmd("PTTL").arg(name)).await? {
                counted.endless += 1;
            }
        }
    }
    counted.is_all = scan.step().is_none();
    Ok(counted)
}

fn told(seen: usize, prefix: &str, is_all: bool) -> String {
    let what = if is_all { "" } else { "the first " };
    format!("{what}{seen} keys under {prefix}:*")
}

/// Keys whose TTL is asked for, one after another.
const MOST_KEYS: usize = 1_000;
/// Among others' keys, ours are looked for in so many.
const MOST_STEPS: usize = 100_000 / KEYS_PER_STEP;
const NO_TTL: i64 = -1;
