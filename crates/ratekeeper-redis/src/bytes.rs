//! Big-endian unsigned integers of 1 to 8 bytes, as Lua's `struct.pack` writes them.

use ratekeeper_core::Timestamp;

/// Appends the lower `bytes` bytes of a number. The core's bounds guarantee that the others are 0.
pub(crate) fn put(out: &mut Vec<u8>, bytes: usize, number: u64) {
    out.extend_from_slice(&number.to_be_bytes()[8 - bytes..]);
}

/// Reads numbers in sequence; `None` if the bytes do not suffice.
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

    pub(crate) fn timestamp(&mut self) -> Option<Timestamp> {
        self.number(7).map(Timestamp::from_micros)
    }

    /// Reads items until the end; `None` if the last one is truncated.
    pub(crate) fn all<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        while !self.0.is_empty() {
            items.push(read(self)?);
        }
        Some(items)
    }
}
