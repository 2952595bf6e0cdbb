//! How many files, and so connections, the system lets this process have.
//!
//! The usual bound is a thousand, far below what the ports may take, and a crowd at one of them would shut out all others.
//! The system lets a process raise it up to another bound, which is only done for the asking.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the bound, and warns if even one port may need more.
pub(super) fn raise(needed: u64) {
    let before = getrlimit(Resource::Nofile);
    let mut raised = before;
    raised.current = before.maximum;
    // A system that refuses has its reasons; what there is then is told below.
    let _ = setrlimit(Resource::Nofile, raised);
    if let Some(most) = getrlimit(Resource::Nofile).current
        && most < needed
    {
        tracing::warn!(
            files = most,
            needed,
            "the system lets this process have fewer files than one port may have connections, so a crowd there would shut \
             out all others; lower --max-connections, or raise the hard limit (ulimit -n, LimitNOFILE=)"
        );
    }
}
