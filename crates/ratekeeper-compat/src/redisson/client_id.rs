//! Client ids, and the random ids of grants.

use std::{
    collections::hash_map::RandomState,
    fmt,
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The id under which the permits of one client are kept. Java creates a UUID at every start; a given id keeps the permits
/// over restarts.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ClientId(Arc<str>);

impl ClientId {
    /// A given id: the host name, for example, or the UUID of a Java client to share its permits.
    pub fn given(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// A random UUID (version 4), in lower case as Java writes it.
    pub(super) fn random(random: &RandomIds) -> Self {
        let mut bytes = random.id();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let digits = format!("{:032x}", u128::from_be_bytes(bytes));
        let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        Self(parts.join("-").into())
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Unique ids: a counter under a keyed hash. Its 128-bit key comes from the operating system, through the standard
/// library, without an error path. Two grants with the same id would count as one.
#[derive(Debug, Default)]
pub(super) struct RandomIds {
    key: RandomState,
    count: AtomicU64,
}

impl RandomIds {
    pub(super) fn id(&self) -> [u8; 16] {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let halves = [0_u8, 1].map(|half| self.key.hash_one((count, half)));
        (u128::from(halves[0]) << 64 | u128::from(halves[1])).to_be_bytes()
    }

    /// A random duration below `span`, in whole microseconds.
    pub(super) fn below(&self, span: Duration) -> Duration {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1);
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        Duration::from_micros(self.key.hash_one((count, 2_u8)) % micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_a_given_id_gets_a_uuid() {
        let random = RandomIds::default();
        let id = ClientId::random(&random).to_string();
        let dashes: Vec<usize> = id.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!((id.len(), dashes), (36, vec![8, 13, 18, 23]));
        assert_eq!(id.as_bytes()[14], b'4', "version");
        assert!(b"89ab".contains(&id.as_bytes()[19]), "variant");
        assert_eq!(id, id.to_lowercase());
        assert_ne!(id, ClientId::random(&random).to_string());
    }
}
