//! Slot map: the owner of each of the 16 384 slots, by index.

use std::sync::Arc;

use crate::link::{node::Node, slots::SLOTS};

/// The owners, and for every slot the index of its owner.
#[derive(Clone, Debug)]
pub(super) struct SlotMap {
    owners: Vec<Arc<Node>>,
    /// One more than the owner's index in `owners`; 0 if the slot has no known owner.
    slots: Box<[u16]>,
}

impl SlotMap {
    pub(super) fn new() -> Self {
        Self { owners: Vec::new(), slots: vec![0; usize::from(SLOTS)].into() }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let number = self.slots.get(usize::from(slot))?.checked_sub(1)?;
        self.owners.get(usize::from(number)).cloned()
    }

    pub(super) fn owners(&self) -> &[Arc<Node>] {
        &self.owners
    }

    pub(super) fn set_owner(&mut self, slot: u16, owner: &Arc<Node>) {
        self.set_owners(slot, slot, owner);
    }

    /// Ignores slots outside the map and owners beyond the 65 535 that the index can hold.
    pub(super) fn set_owners(&mut self, first: u16, last: u16, owner: &Arc<Node>) {
        let known = self.owners.iter().position(|known| Arc::ptr_eq(known, owner));
        let index = known.unwrap_or_else(|| {
            self.owners.push(owner.clone());
            self.owners.len() - 1
        });
        let Ok(number) = u16::try_from(index + 1) else { return };
        if let Some(slots) = self.slots.get_mut(usize::from(first)..=usize::from(last)) {
            slots.fill(number);
        }
    }
}
