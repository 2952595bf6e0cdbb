//! Messages in and out, and a look at them before they are taken apart.
//!
//! Two bytes on the wire are a descriptor of fifty in memory, and a few megabytes of such would be a hundred. So what may
//! be repeated in a question is counted on its bytes, and a message with more of it than anybody may ask about is
//! refused while it is still bytes.

use std::marker::PhantomData;

use bytes::Buf;
use prost::{
    DecodeError, Message,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder},
};
use tonic_prost::{ProstDecoder, ProstEncoder};

use super::wire::{RateLimitRequest, RateLimitResponse};
use crate::engine::{MAX_ENTRIES, MAX_SUBJECTS};

/// A message that knows how much of itself is too much.
pub(crate) trait Counted {
    /// Looks through its bytes. What is no message at all is left to whoever takes it apart.
    fn check(bytes: &[u8]) -> Result<(), Status>;
}

impl Counted for RateLimitRequest {
    fn check(bytes: &[u8]) -> Result<(), Status> {
        let mut descriptors = 0;
        let mut most_entries = 0;
        // The fields are those of `proto/`: a request's 2 are its descriptors, and their 1 are entries.
        let _ = each(bytes, 2, |descriptor| {
            descriptors += 1;
            let mut entries = 0;
            each(descriptor, 1, |_| {
                entries += 1;
                Ok(())
            })?;
            most_entries = most_entries.max(entries);
            Ok(())
        });
        if descriptors > MAX_SUBJECTS {
            let message = format!("{descriptors} descriptors in one request; {MAX_SUBJECTS} is the most");
            return Err(Status::invalid_argument(message));
        }
        if most_entries > MAX_ENTRIES {
            let message = format!("a descriptor of {most_entries} entries; {MAX_ENTRIES} is the most");
            return Err(Status::invalid_argument(message));
        }
        Ok(())
    }
}

/// What we say ourselves.
impl Counted for RateLimitResponse {
    fn check(_: &[u8]) -> Result<(), Status> {
        Ok(())
    }
}

/// Hands over the bytes of each field of a message that has this number and is a message itself.
fn each(
    mut bytes: &[u8],
    number: u32,
    mut found: impl FnMut(&[u8]) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    while bytes.has_remaining() {
        let (field, kind) = decode_key(&mut bytes)?;
        if (field, kind) != (number, WireType::LengthDelimited) {
            skip_field(kind, field, &mut bytes, DecodeContext::default())?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut bytes)?).unwrap_or(usize::MAX);
        let Some((inside, rest)) = bytes.split_at_checked(length) else { return Ok(()) };
        found(inside)?;
        bytes = rest;
    }
    Ok(())
}

/// As prost has it, with that look before.
#[derive(Debug)]
pub(crate) struct Bounded<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Bounded<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for Bounded<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Counted + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(buffers())
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(ProstDecoder::new(buffers()))
    }
}

/// The half that takes apart.
#[derive(Debug)]
pub(crate) struct BoundedDecoder<U>(ProstDecoder<U>);

impl<U: Message + Default + Counted> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // tonic hands over one message, in one piece.
        U::check(buffer.chunk())?;
        self.0.decode(buffer)
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

/// tonic begins with 8 KiB for a message and keeps them until the answer is sent. Few messages are that long, and buffers grow.
fn buffers() -> BufferSettings {
    BufferSettings::new(FIRST_BYTES, YIELD_BYTES)
}

const FIRST_BYTES: usize = 512;
/// As tonic has it; a call has one message, so it does not matter.
const YIELD_BYTES: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::wire::{Entry, RateLimitDescriptor};

    fn request(descriptors: usize, entries: usize) -> Vec<u8> {
        let entry = Entry { key: "k".into(), value: b"v".to_vec() };
        let descriptor = RateLimitDescriptor { entries: vec![entry; entries], ..Default::default() };
        let request =
            RateLimitRequest { domain: "api".into(), descriptors: vec![descriptor; descriptors], hits_addend: 7 };
        request.encode_to_vec()
    }

    #[test]
    fn what_is_repeated_too_often_is_refused_while_it_is_bytes() {
        for (descriptors, entries) in [(0, 0), (1, 1), (MAX_SUBJECTS, MAX_ENTRIES)] {
            assert!(RateLimitRequest::check(&request(descriptors, entries)).is_ok(), "{descriptors} {entries}");
        }
        let told = |bytes: &[u8]| RateLimitRequest::check(bytes).unwrap_err().message().to_owned();
        assert_eq!(told(&request(MAX_SUBJECTS + 1, 1)), "65 descriptors in one request; 64 is the most");
        assert_eq!(told(&request(2, MAX_ENTRIES + 1)), "a descriptor of 17 entries; 16 is the most");
        assert_eq!(told(&b"\x12\x00".repeat(100_000)), "100000 descriptors in one request; 64 is the most");
    }

    /// Whoever takes it apart has the word for what is wrong with it.
    #[test]
    fn what_is_no_message_is_left_alone() {
        for bytes in [&b"\xff"[..], b"\x12\xff\xff\xff\xff\x0f", b"\x12\x05\x0a", b"\x0b\x12", &[0xff; 40]] {
            assert!(RateLimitRequest::check(bytes).is_ok(), "{}", bytes.escape_ascii());
        }
    }
}
