//! Limit of open files, and so of connections (RLIMIT_NOFILE).
//!
//! The usual soft limit is 1024, far below what the ports accept, so connections to one port could block the others. It is
//! raised to the hard limit at start.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit, and warns if one port may need more.
pub(super) fn raise(needed: u64) {
    let before = getrlimit(Resource::Nofile);
    let mut raised = before;
    raised.current = before.maximum;
    // If the system refuses, the limit that is left is reported below.
    let _ = setrlimit(Resource::Nofile, raised);
    if let Some(limit) = getrlimit(Resource::Nofile).current
        && limit < needed
    {
        tracing::warn!(
            files = limit,
            needed,
            "the limit of open files is below the connections that one port may have, so one busy port could block the \
             others; lower --max-connections, or raise the hard limit (ulimit -n, LimitNOFILE=)"
        );
    }
}
