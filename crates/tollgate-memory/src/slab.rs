//! Things kept beside the table, at numbered places that are used again.

/// A list with holes.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// Puts a thing somewhere and says where.
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = Some(thing);
            return place;
        }
        let more = self.growth();
        self.places.reserve_exact(more);
        self.free.reserve_exact(self.places.capacity());
        self.places.push(Some(thing));
        // The byte budget ends long before four thousand million places do.
        u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
    }

    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.places.get(place as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let thing = self.places.get_mut(place as usize)?.take();
        if thing.is_some() {
            self.free.push(place);
        }
        if self.free.len() == self.places.len() {
            *self = Self::new(); // nothing left: give the memory back
        }
        thing
    }

    /// A list just as long as it has to be. Everything gets a new place, which `moved` is told with the old one.
    pub(crate) fn compact(&mut self, mut moved: impl FnMut(u32, u32)) {
        let old = std::mem::replace(self, Self::new());
        for (from, thing) in (0_u32..).zip(old.places) {
            if let Some(thing) = thing {
                moved(from, self.insert(thing));
            }
        }
    }

    /// Places that the next insert will make room for. A quarter at a time: a budget feels doubling.
    fn growth(&self) -> usize {
        let full = self.free.is_empty() && self.places.len() == self.places.capacity();
        if full { (self.places.len() / 4).max(8) } else { 0 }
    }

    /// Bytes that the next insert will add to the list itself.
    pub(crate) fn growth_bytes(&self) -> usize {
        self.growth() * (size_of::<Option<T>>() + size_of::<u32>())
    }

    /// Bytes of the list itself, not of what its things point to.
    pub(crate) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Option<T>>() + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_memory_is_given_back() {
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
