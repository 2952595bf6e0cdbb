//! Decoding of `RateLimitRequest` into the subjects of an engine request.
//!
//! Keys and values are borrowed from the message; only a value that is not UTF-8 is copied, since a proxy forwards any
//! bytes that its client put into a header. All entries are in one list, and each descriptor is a range of it.
//!
//! The engine checks lengths, counts and costs. Checked here: the number of descriptors, which bounds the work of
//! decoding, and the unit of an inline limit.

use std::{borrow::Cow, ops::Range};

use ratekeeper_rules::EnvoyUnit;
use smallvec::SmallVec;
use tonic::Status;

use super::wire::{RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitUnit};
use crate::{
    lossy_text,
    request::{Descriptor, MAX_SUBJECTS, RequestedLimit, Subject},
};

/// The values of all entries as text, in the order of the request.
pub(super) type Values<'a> = SmallVec<[Cow<'a, str>; 8]>;

/// The decoded descriptors of a request.
#[derive(Debug)]
pub(super) struct Decoded<'a> {
    entries: SmallVec<[(&'a str, &'a str); 8]>,
    descriptors: SmallVec<[DecodedDescriptor; 4]>,
}

/// One descriptor.
#[derive(Debug)]
struct DecodedDescriptor {
    entries: Range<usize>,
    cost: Option<u64>,
    limit: Option<RequestedLimit>,
    is_refund: bool,
}

/// Subjects of one verb, with the position of each in the request.
#[derive(Debug, Default)]
pub(super) struct DescriptorGroup<'a> {
    pub(super) subjects: SmallVec<[Subject<'a>; 4]>,
    pub(super) positions: SmallVec<[usize; 4]>,
}

/// The values of all entries of a request. A request with more than [`MAX_SUBJECTS`] descriptors is an error.
pub(super) fn values(request: &RateLimitRequest) -> Result<Values<'_>, Status> {
    let found = request.descriptors.len();
    if found > MAX_SUBJECTS {
        let message = format!("{found} descriptors in one request; {MAX_SUBJECTS} is the most");
        return Err(Status::invalid_argument(message));
    }
    let entries = request.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
    Ok(entries.map(|entry| lossy_text::of_bytes(&entry.value)).collect())
}

impl<'a> Decoded<'a> {
    /// Decodes a request; `values` are the values of the same request.
    pub(super) fn of(request: &'a RateLimitRequest, values: &'a Values<'_>) -> Result<Self, Status> {
        let mut values = values.iter();
        let mut decoded = Self { entries: SmallVec::new(), descriptors: SmallVec::new() };
        for (position, descriptor) in request.descriptors.iter().enumerate() {
            let start = decoded.entries.len();
            let keys = descriptor.entries.iter().map(|entry| entry.key.as_str());
            decoded.entries.extend(keys.zip(values.by_ref().map(|value| &**value)));
            decoded.descriptors.push(DecodedDescriptor {
                entries: start..decoded.entries.len(),
                cost: cost(request, descriptor),
                limit: descriptor.limit.as_ref().map(|limit| requested(position, limit)).transpose()?,
                is_refund: descriptor.is_negative_hits,
            });
        }
        Ok(decoded)
    }

    /// The descriptors to refund if `is_refund`, else those to take.
    pub(super) fn group(&self, is_refund: bool) -> DescriptorGroup<'_> {
        let mut group = DescriptorGroup::default();
        for (position, part) in self.descriptors.iter().enumerate().filter(|(_, part)| part.is_refund == is_refund) {
            let entries = &self.entries[part.entries.clone()];
            group.subjects.push(Subject {
                descriptor: Descriptor::Entries(entries),
                cost: part.cost,
                limit: part.limit,
                rules: None,
            });
            group.positions.push(position);
        }
        group
    }

    /// Whether any descriptor is a refund.
    pub(super) fn has_refunds(&self) -> bool {
        self.descriptors.iter().any(|part| part.is_refund)
    }
}

/// The cost of a descriptor. Its `hits_addend` takes precedence, and 0 there is a peek. In the request, 0 means that
/// the field is not set: `None`, and the policy's default cost applies.
fn cost(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> Option<u64> {
    descriptor.hits_addend.or(match request.hits_addend {
        0 => None,
        hits => Some(hits.into()),
    })
}

fn requested(position: usize, limit: &RateLimitOverride) -> Result<RequestedLimit, Status> {
    let unit = match RateLimitUnit::try_from(limit.unit) {
        Ok(RateLimitUnit::Second) => EnvoyUnit::Second,
        Ok(RateLimitUnit::Minute) => EnvoyUnit::Minute,
        Ok(RateLimitUnit::Hour) => EnvoyUnit::Hour,
        Ok(RateLimitUnit::Day) => EnvoyUnit::Day,
        Ok(RateLimitUnit::Month) => EnvoyUnit::Month,
        Ok(RateLimitUnit::Year) => EnvoyUnit::Year,
        Ok(RateLimitUnit::Unknown) | Err(_) => {
            let found = limit.unit;
            let message = format!("descriptor {position}: the limit's unit is {found}; use 1 (a second) to 6 (a year)");
            return Err(Status::invalid_argument(message));
        }
    };
    Ok(RequestedLimit { requests_per_unit: limit.requests_per_unit.into(), unit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::wire::Entry;

    fn descriptor(value: &str) -> RateLimitDescriptor {
        let entry = Entry { key: "user".into(), value: value.into() };
        RateLimitDescriptor { entries: vec![entry], ..Default::default() }
    }

    fn request(descriptors: Vec<RateLimitDescriptor>, hits_addend: u32) -> RateLimitRequest {
        RateLimitRequest { domain: "api".into(), descriptors, hits_addend }
    }

    fn costs(request: &RateLimitRequest) -> Vec<Option<u64>> {
        Decoded::of(request, &values(request).unwrap())
            .unwrap()
            .group(false)
            .subjects
            .iter()
            .map(|subject| subject.cost)
            .collect()
    }

    #[test]
    fn the_cost_is_that_of_the_descriptor_else_of_the_request_else_of_the_policy() {
        let own = |hits| RateLimitDescriptor { hits_addend: Some(hits), ..descriptor("own") };
        assert_eq!(costs(&request(vec![descriptor("a")], 0)), [None]);
        assert_eq!(costs(&request(vec![descriptor("a")], 7)), [Some(7)]);
        let mixed = request(vec![descriptor("a"), own(0), own(u64::MAX)], 7);
        assert_eq!(costs(&mixed), [Some(7), Some(0), Some(u64::MAX)]);
    }

    #[test]
    fn refunds_are_a_separate_group_with_their_positions() {
        let refund = RateLimitDescriptor { is_negative_hits: true, ..descriptor("refund") };
        let request = request(vec![descriptor("a"), refund, descriptor("b")], 0);
        let values = values(&request).unwrap();
        let decoded = Decoded::of(&request, &values).unwrap();
        assert!(decoded.has_refunds());
        assert_eq!(decoded.group(false).positions.as_slice(), [0, 2]);
        assert_eq!(decoded.group(true).positions.as_slice(), [1]);
        let Descriptor::Entries(entries) = decoded.group(true).subjects[0].descriptor else {
            panic!("entries were given")
        };
        assert_eq!(entries, [("user", "refund")]);
    }

    #[test]
    fn an_inline_limit_needs_a_known_unit() {
        let with = |unit| {
            let limit = Some(RateLimitOverride { requests_per_unit: 5, unit });
            request(vec![descriptor("a"), RateLimitDescriptor { limit, ..descriptor("b") }], 0)
        };
        let day = with(RateLimitUnit::Day.into());
        let texts = values(&day).unwrap();
        let decoded = Decoded::of(&day, &texts).unwrap();
        let expected = RequestedLimit { requests_per_unit: 5, unit: EnvoyUnit::Day };
        assert_eq!(decoded.group(false).subjects[1].limit, Some(expected));
        for unit in [0, 7, -1, i32::MAX] {
            let request = with(unit);
            let status = Decoded::of(&request, &values(&request).unwrap()).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            assert!(
                status.message().contains("descriptor 1") && status.message().contains(&unit.to_string()),
                "{status}"
            );
        }
    }

    #[test]
    fn too_many_descriptors_are_refused_before_decoding() {
        let most = request(vec![descriptor("a"); MAX_SUBJECTS], 0);
        assert!(values(&most).is_ok());
        let more = request(vec![descriptor("a"); MAX_SUBJECTS + 1], 0);
        assert!(values(&more).unwrap_err().message().contains("65 descriptors"));
    }

    #[test]
    fn bytes_that_are_not_utf_8_stay_with_their_key() {
        let mut entries = descriptor("ann").entries;
        entries.push(Entry { key: "agent".into(), value: b"\xff\xfe".to_vec() });
        let request = request(vec![RateLimitDescriptor { entries, ..Default::default() }, descriptor("bob")], 0);
        let values = values(&request).unwrap();
        let decoded = Decoded::of(&request, &values).unwrap();
        assert_eq!(decoded.entries.as_slice(), [("user", "ann"), ("agent", r"\xff\xfe"), ("user", "bob")]);
        assert!(values.iter().filter(|value| matches!(value, Cow::Owned(_))).count() == 1, "only one is copied");
    }
}
