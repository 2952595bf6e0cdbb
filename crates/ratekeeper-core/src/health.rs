//! Health of a store: whether its servers can decide at present.
//!
//! A store that is down still answers through each rule's [`OnStoreFailure`](crate::OnStoreFailure); the status is for
//! logs, health checks and metrics.

/// Whether the servers of a store can decide.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum HealthStatus {
    /// All of them can.
    #[default]
    Up,
    /// Some nodes cannot, and keys on them are decided by fallback. Names how many, and the first reason.
    Degraded(String),
    /// None can. Names the reason.
    Down(String),
}

impl HealthStatus {
    /// The status of a store with `count` nodes, given the failures of those that cannot decide.
    pub fn of_nodes(count: usize, failures: impl IntoIterator<Item = String>) -> Self {
        let mut failures = failures.into_iter();
        let Some(first) = failures.next() else { return Self::Up };
        let failed = 1 + failures.count();
        if failed >= count { Self::Down(first) } else { Self::Degraded(format!("{failed} of {count} nodes: {first}")) }
    }

    /// The word for it in metrics and health checks.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Degraded(_) => "degraded",
            Self::Down(_) => "down",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_down_only_if_every_node_is() {
        let failures = |count: usize| (0..count).map(|node| format!("node {node}"));
        assert_eq!(HealthStatus::of_nodes(3, failures(0)), HealthStatus::Up);
        assert_eq!(HealthStatus::of_nodes(3, failures(2)), HealthStatus::Degraded("2 of 3 nodes: node 0".to_owned()));
        assert_eq!(HealthStatus::of_nodes(3, failures(3)), HealthStatus::Down("node 0".to_owned()));
    }
}
