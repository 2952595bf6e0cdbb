//! From a request on the wire to the subjects of a question.
//!
//! Nothing is copied: entries are the message's own texts, laid side by side so that subjects can point at them. Only a
//! value that is no UTF-8 is written anew: a proxy passes on whatever bytes its client put into a header. What the
//! engine checks (lengths, counts, costs) is left to it; here is checked what only this wire can say wrongly.

use std::{borrow::Cow, ops::Range};

use smallvec::SmallVec;
use tollgate_rules::EnvoyUnit;
use tonic::Status;

use super::wire::{RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitUnit};
use crate::{
    engine::{MAX_SUBJECTS, RequestedLimit, Subject, Who},
    text,
};

/// The values of all entries as text, in the order of the request.
pub(super) type Values<'a> = SmallVec<[Cow<'a, str>; 8]>;

/// The descriptors of a request, taken apart.
#[derive(Debug)]
pub(super) struct Decoded<'a> {
    entries: SmallVec<[(&'a str, &'a str); 8]>,
    parts: SmallVec<[Part; 4]>,
}

/// One descriptor.
#[derive(Debug)]
struct Part {
    entries: Range<usize>,
    cost: Option<u64>,
    limit: Option<RequestedLimit>,
    gives_back: bool,
}

/// Subjects of one verb, and at which place of the request each of them stands.
#[derive(Debug, Default)]
pub(super) struct Share<'a> {
    pub(super) subjects: SmallVec<[Subject<'a>; 4]>,
    pub(super) places: SmallVec<[usize; 4]>,
}

/// The values of a request's entries; it is refused here if it has too many descriptors.
pub(super) fn values(request: &RateLimitRequest) -> Result<Values<'_>, Status> {
    let found = request.descriptors.len();
    if found > MAX_SUBJECTS {
        let message = format!("{found} descriptors in one request; {MAX_SUBJECTS} is the most");
        return Err(Status::invalid_argument(message));
    }
    let entries = request.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
    Ok(entries.map(|entry| text::of_bytes(&entry.value)).collect())
}

impl<'a> Decoded<'a> {
    /// `values` are those of the same request.
    pub(super) fn of(request: &'a RateLimitRequest, values: &'a Values<'_>) -> Result<Self, Status> {
        let mut values = values.iter();
        let mut decoded = Self { entries: SmallVec::new(), parts: SmallVec::new() };
        for (place, descriptor) in request.descriptors.iter().enumerate() {
            let start = decoded.entries.len();
            let keys = descriptor.entries.iter().map(|entry| entry.key.as_str());
            decoded.entries.extend(keys.zip(values.by_ref().map(|value| &**value)));
            decoded.parts.push(Part {
                entries: start..decoded.entries.len(),
                cost: cost(request, descriptor),
                limit: descriptor.limit.as_ref().map(|limit| requested(place, limit)).transpose()?,
                gives_back: descriptor.is_negative_hits,
            });
        }
        Ok(decoded)
    }

    /// What is to be taken, or what is to be given back.
    pub(super) fn share(&self, gives_back: bool) -> Share<'_> {
        let mut share = Share::default();
        for (place, part) in self.parts.iter().enumerate().filter(|(_, part)| part.gives_back == gives_back) {
            let entries = &self.entries[part.entries.clone()];
            share.subjects.push(Subject { who: Who::Descriptor(entries), cost: part.cost, limit: part.limit });
            share.places.push(place);
        }
        share
    }

    pub(super) fn gives_back(&self) -> bool {
        self.parts.iter().any(|part| part.gives_back)
    }
}

/// A descriptor's own number stands as it is, and 0 looks only. Of the whole request 0 is what proxies send that say
/// nothing; then it costs what the policy says, 1 unless its file says otherwise.
fn cost(request: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> Option<u64> {
    descriptor.hits_addend.or(match request.hits_addend {
        0 => None,
        hits => Some(hits.into()),
    })
}

fn requested(place: usize, limit: &RateLimitOverride) -> Result<RequestedLimit, Status> {
    let unit = match RateLimitUnit::try_from(limit.unit) {
        Ok(RateLimitUnit::Second) => EnvoyUnit::Second,
        Ok(RateLimitUnit::Minute) => EnvoyUnit::Minute,
        Ok(RateLimitUnit::Hour) => EnvoyUnit::Hour,
        Ok(RateLimitUnit::Day) => EnvoyUnit::Day,
        Ok(RateLimitUnit::Month) => EnvoyUnit::Month,
        Ok(RateLimitUnit::Year) => EnvoyUnit::Year,
        Ok(RateLimitUnit::Unknown) | Err(_) => {
            let found = limit.unit;
            let message =
                format!("descriptor {place}: the limit's unit is {found}; it should be 1 (a second) to 6 (a year)");
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
            .share(false)
            .subjects
            .iter()
            .map(|subject| subject.cost)
            .collect()
    }

    #[test]
    fn no_hits_are_what_the_policy_says_and_a_descriptors_own_number_goes_before_the_requests() {
        let own = |hits| RateLimitDescriptor { hits_addend: Some(hits), ..descriptor("own") };
        assert_eq!(costs(&request(vec![descriptor("a")], 0)), [None]);
        assert_eq!(costs(&request(vec![descriptor("a")], 7)), [Some(7)]);
        let mixed = request(vec![descriptor("a"), own(0), own(u64::MAX)], 7);
        assert_eq!(costs(&mixed), [Some(7), Some(0), Some(u64::MAX)]);
    }

    #[test]
    fn what_is_given_back_stands_apart_and_knows_its_place() {
        let back = RateLimitDescriptor { is_negative_hits: true, ..descriptor("back") };
        let request = request(vec![descriptor("a"), back, descriptor("b")], 0);
        let values = values(&request).unwrap();
        let decoded = Decoded::of(&request, &values).unwrap();
        assert!(decoded.gives_back());
        assert_eq!(decoded.share(false).places.as_slice(), [0, 2]);
        assert_eq!(decoded.share(true).places.as_slice(), [1]);
        let Who::Descriptor(entries) = decoded.share(true).subjects[0].who else { panic!("entries were given") };
        assert_eq!(entries, [("user", "back")]);
    }

    #[test]
    fn a_limit_in_the_request_needs_a_unit_we_know() {
        let with = |unit| {
            let limit = Some(RateLimitOverride { requests_per_unit: 5, unit });
            request(vec![descriptor("a"), RateLimitDescriptor { limit, ..descriptor("b") }], 0)
        };
        let day = with(RateLimitUnit::Day.into());
        let texts = values(&day).unwrap();
        let decoded = Decoded::of(&day, &texts).unwrap();
        let expected = RequestedLimit { requests_per_unit: 5, unit: EnvoyUnit::Day };
        assert_eq!(decoded.share(false).subjects[1].limit, Some(expected));
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
    fn too_many_descriptors_are_refused_before_anything_is_made_of_them() {
        let most = request(vec![descriptor("a"); MAX_SUBJECTS], 0);
        assert!(values(&most).is_ok());
        let more = request(vec![descriptor("a"); MAX_SUBJECTS + 1], 0);
        assert!(values(&more).unwrap_err().message().contains("65 descriptors"));
    }

    #[test]
    fn bytes_that_are_no_text_stay_with_their_key() {
        let mut entries = descriptor("ann").entries;
        entries.push(Entry { key: "agent".into(), value: b"\xff\xfe".to_vec() });
        let request = request(vec![RateLimitDescriptor { entries, ..Default::default() }, descriptor("bob")], 0);
        let values = values(&request).unwrap();
        let decoded = Decoded::of(&request, &values).unwrap();
        assert_eq!(decoded.entries.as_slice(), [("user", "ann"), ("agent", r"\xff\xfe"), ("user", "bob")]);
        assert!(values.iter().filter(|value| matches!(value, Cow::Owned(_))).count() == 1, "only one is copied");
    }
}
