//! The policies a shard has been told about, and every version of them that keys may still be counted under.
//!
//! Each shard has its own list, read under the lock it holds anyway. A key says which version its state was written
//! under; one that is behind is carried over, version by version, when it is next met.

use std::sync::Arc;

use tollgate_core::{Carry, Micros, Policy, Subject, carry_over};

use crate::entry::VersionId;

/// A policy by domain and name, whatever its version.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct PolicyId(pub(crate) u16);

#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    versions: Vec<Version>,
    /// The newest version of each policy.
    heads: Vec<(VersionId, Arc<Policy>)>,
}

#[derive(Clone, Debug)]
struct Version {
    policy: Arc<Policy>,
    id: PolicyId,
    /// The version that replaced it, and how its keys are carried over.
    next: Option<(VersionId, Carry)>,
    /// It stands beside others of its name, and none replaces another.
    is_beside: bool,
}

impl Policies {
    /// The policy of this domain and name, if there is one.
    pub(crate) fn find(&self, domain: &str, name: &str) -> Option<PolicyId> {
        let index = self.heads.iter().position(|(_, head)| head.name() == name && head.domain() == domain)?;
        u16::try_from(index).ok().map(PolicyId)
    }

    /// Adds a version of a policy, which is a new one unless it is `known`. `None` if there is no number left.
    pub(crate) fn install(&mut self, policy: &Arc<Policy>, known: Option<PolicyId>, carry: Carry) -> Option<PolicyId> {
        let version = VersionId(u16::try_from(self.versions.len()).ok()?);
        if version.0 > VersionId::LAST.0 {
            return None;
        }
        let id = match known {
            Some(PolicyId(index)) => {
                let (old, head) = &mut self.heads[usize::from(index)];
                self.versions[usize::from(old.0)].next = Some((version, carry));
                *old = version;
                *head = Arc::clone(policy);
                PolicyId(index)
            }
            None => {
                self.heads.push((version, Arc::clone(policy)));
                PolicyId(u16::try_from(self.heads.len() - 1).ok()?)
            }
        };
        self.versions.push(Version { policy: Arc::clone(policy), id, next: None, is_beside: false });
        Some(id)
    }

    /// Adds a version that replaces none.
    pub(crate) fn install_beside(&mut self, policy: &Arc<Policy>, known: Option<PolicyId>) -> Option<PolicyId> {
        let id = self.install(policy, known, Carry::Moment)?;
        if let Some(version) = self.versions.last_mut() {
            version.is_beside = true;
        }
        Some(id)
    }

    /// The version a question is about: the newest of the policy, or one that stands beside others.
    #[inline]
    pub(crate) fn meant(&self, id: PolicyId, beside: Option<VersionId>) -> (VersionId, &Arc<Policy>) {
        match beside {
            None => self.newest(id),
            Some(version) => (version, &self.versions[usize::from(version.0)].policy),
        }
    }

    /// The newest version of a policy.
    #[inline]
    pub(crate) fn newest(&self, PolicyId(id): PolicyId) -> (VersionId, &Arc<Policy>) {
        let (version, policy) = &self.heads[usize::from(id)];
        (*version, policy)
    }

    pub(crate) fn policy(&self, VersionId(version): VersionId) -> &Policy {
        &self.versions[usize::from(version)].policy
    }

    /// Which policy this is a version of.
    #[inline]
    pub(crate) fn id(&self, VersionId(version): VersionId) -> PolicyId {
        self.versions[usize::from(version)].id
    }

    /// Carries a key over to the newest version of its policy, or to the one beside it that is meant.
    pub(crate) fn carry(&self, from: VersionId, to: VersionId, subject: Subject, now: Micros) -> Subject {
        let (mut version, mut subject) = (&self.versions[usize::from(from.0)], subject);
        let meant = &self.versions[usize::from(to.0)];
        if meant.is_beside {
            return carry_over(&version.policy, &meant.policy, subject, Carry::Moment, now);
        }
        while let Some((next, carry)) = version.next {
            let newer = &self.versions[usize::from(next.0)];
            subject = carry_over(&version.policy, &newer.policy, subject, carry, now);
            version = newer;
        }
        subject
    }

    /// How many versions there can be.
    pub(crate) const MOST: usize = VersionId::LAST.0 as usize + 1;
}
