//! Big-endian numbers of any width, as `struct.pack` writes them.

use tollgate_core::Micros;

/// A number in so many bytes, of which the core's bounds leave the rest empty.
pub(crate) fn put(out: &mut Vec<u8>, bytes: usize, number: u64) {
    out.extend_from_slice(&number.to_be_bytes()[8 - bytes..]);
}

/// Reads numbers one after another; every read says whether there was enough.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn number(&mut self, bytes: usize) -> Option<u64> {
        let mut number = [0; 8];
        number[8 - bytes..].copy_from_slice(self.bytes(bytes)?);
        Some(u64::from_be_bytes(number))
    }

    pub(crate) fn micros(&mut self) -> Option<Micros> {
        self.number(7).map(Micros)
    }

    /// Everything that is left, piece by piece; none if the last piece is cut short.
    pub(crate) fn all<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut pieces = Vec::new();
        while !self.0.is_empty() {
            pieces.push(read(self)?);
        }
        Some(pieces)
    }
}
