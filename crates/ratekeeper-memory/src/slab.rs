//! Slab: values at stable indices, which are reused.
//!
//! Holds what does not fit into a table entry: spilled states and long keys.

/// A list with free slots.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Stores a value and returns its index.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(value);
            return index;
        }
        let more = self.growth();
        self.slots.reserve_exact(more);
        self.free.reserve_exact(self.slots.capacity());
        self.slots.push(Some(value));
        // The byte budget is spent long before there are 2^32 values.
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.slots.get_mut(index as usize)?.take();
        if value.is_some() {
            self.free.push(index);
        }
        if self.free.len() == self.slots.len() {
            *self = Self::new(); // empty: free the memory
        }
        value
    }

    /// Closes all gaps. `moved` is called with the old and the new index of every value.
    pub(crate) fn compact(&mut self, mut moved: impl FnMut(u32, u32)) {
        let old = std::mem::replace(self, Self::new());
        for (from, value) in (0_u32..).zip(old.slots) {
            if let Some(value) = value {
                moved(from, self.insert(value));
            }
        }
    }

    /// Slots that the next insert will allocate. A quarter at a time: doubling would strain the budget.
    fn growth(&self) -> usize {
        let full = self.free.is_empty() && self.slots.len() == self.slots.capacity();
        if full { (self.slots.len() / 4).max(8) } else { 0 }
    }

    /// Bytes that the next insert will add to the list itself.
    pub(crate) fn growth_bytes(&self) -> usize {
        self.growth() * (size_of::<Option<T>>() + size_of::<u32>())
    }

    /// Bytes of the list itself, without what its values point to.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<T>>() + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_reused_and_memory_is_freed() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert("a"), slab.insert("b"));
        assert_eq!(slab.remove(a), Some("a"));
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.insert("c"), a);
        assert_eq!((slab.get(a), slab.get(b)), (Some(&"c"), Some(&"b")));
        slab.remove(a);
        slab.remove(b);
        assert_eq!(slab.bytes(), 0);
    }
}
