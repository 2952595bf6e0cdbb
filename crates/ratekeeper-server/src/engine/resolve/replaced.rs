//! Limits that another limit of the same request replaces (`replaces` of an Envoy-format rule file).

use ratekeeper_core::Verdict;

use super::Resolved;
use crate::{
    engine::{Resolution, SubjectAnswer},
    rulebook::LimitEntry,
};

impl Resolved<'_> {
    /// Removes the targets of limits that another limit of the request replaces, and renumbers the remaining ones.
    pub(super) fn remove_replaced(&mut self, limits: &[Option<&LimitEntry>]) {
        let replaced: Vec<&str> =
            limits.iter().flatten().flat_map(|limit| limit.replaces.iter().map(|name| &**name)).collect();
        if replaced.is_empty() {
            return;
        }
        let mut keep = vec![false; self.targets.len()];
        for ((answer, target), limit) in self.subjects.iter_mut().zip(limits) {
            let name = limit.and_then(|limit| limit.name.as_deref());
            if name.is_some_and(|name| replaced.contains(&name)) {
                *answer = SubjectAnswer::of(Resolution::Replaced, answer.cost);
                *target = None;
            } else if let Some(target) = target {
                keep[*target] = true;
            }
        }
        self.refused = self.subjects.iter().any(|(answer, _)| answer.verdict == Verdict::Never);
        let mut moved = vec![0; keep.len()];
        let mut kept = 0;
        for (target, keep) in keep.iter().enumerate() {
            moved[target] = kept;
            kept += usize::from(*keep);
        }
        let mut index = 0;
        self.targets.retain(|_| {
            index += 1;
            keep[index - 1]
        });
        for (_, target) in &mut self.subjects {
            *target = target.map(|target| moved[target]);
        }
    }
}
