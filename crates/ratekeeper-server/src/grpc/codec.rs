//! Protobuf codec that bounds the repeated fields of a request before decoding.
//!
//! An empty descriptor has two bytes on the wire and about fifty in memory, so a few megabytes could decode into a
//! hundred. Descriptors and entries are therefore counted in the encoded bytes. A message that exceeds
//! [`MAX_SUBJECTS`] or [`MAX_ENTRIES`] is refused before anything is allocated for it.

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
use crate::request::{MAX_ENTRIES, MAX_SUBJECTS};

/// A message whose repeated fields are bounded.
pub(crate) trait CheckRepeated {
    /// Checks the encoded bytes. Malformed bytes are not reported here; the decoder reports them.
    fn check(bytes: &[u8]) -> Result<(), Status>;
}

impl CheckRepeated for RateLimitRequest {
    fn check(bytes: &[u8]) -> Result<(), Status> {
        let mut descriptors = 0;
        let mut most_entries = 0;
        // Field numbers of `proto/`: 2 of a request is `descriptors`, 1 of a descriptor is `entries`.
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

/// Responses are written by this server and need no check.
impl CheckRepeated for RateLimitResponse {
    fn check(_: &[u8]) -> Result<(), Status> {
        Ok(())
    }
}

/// Calls `found` with the bytes of each length-delimited field that has this number.
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

/// The prost codec with [`CheckRepeated`] applied before decoding.
#[derive(Debug)]
pub(crate) struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + CheckRepeated + Send + 'static,
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

/// The decoder of [`BoundedCodec`].
#[derive(Debug)]
pub(crate) struct BoundedDecoder<U>(ProstDecoder<U>);

impl<U: Message + Default + CheckRepeated> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // tonic passes exactly one message, as one chunk.
        U::check(buffer.chunk())?;
        self.0.decode(buffer)
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

/// Small initial buffers: tonic's default is 8 KiB per message, kept until the response is sent. Few messages are that
/// long, and buffers grow.
fn buffers() -> BufferSettings {
    BufferSettings::new(FIRST_BYTES, YIELD_BYTES)
}

const FIRST_BYTES: usize = 512;
/// tonic's default. It has no effect, since a call has one message.
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
    fn too_many_repeated_fields_are_refused_before_decoding() {
        for (descriptors, entries) in [(0, 0), (1, 1), (MAX_SUBJECTS, MAX_ENTRIES)] {
            assert!(RateLimitRequest::check(&request(descriptors, entries)).is_ok(), "{descriptors} {entries}");
        }
        let message = |bytes: &[u8]| RateLimitRequest::check(bytes).unwrap_err().message().to_owned();
        assert_eq!(message(&request(MAX_SUBJECTS + 1, 1)), "65 descriptors in one request; 64 is the most");
        assert_eq!(message(&request(2, MAX_ENTRIES + 1)), "a descriptor of 17 entries; 16 is the most");
        assert_eq!(message(&b"\x12\x00".repeat(100_000)), "100000 descriptors in one request; 64 is the most");
    }

    /// Malformed bytes pass the check; the decoder reports the error.
    #[test]
    fn malformed_bytes_are_left_to_the_decoder() {
        for bytes in [&b"\xff"[..], b"\x12\xff\xff\xff\xff\x0f", b"\x12\x05\x0a", b"\x0b\x12", &[0xff; 40]] {
            assert!(RateLimitRequest::check(bytes).is_ok(), "{}", bytes.escape_ascii());
        }
    }
}
