//! Subjects of an HTTP request.
//!
//! ```text
//! "key": "user:42"                                    one key, of the policy for keys without a descriptor
//! "descriptor": {"user":"42"}                         one descriptor
//! "descriptors": [{"user":"42"}, {"ip":"10.0.0.1"}]   several, charged together or not at all
//! "keys": [{"policy":"per-user","key":"42","cost":2}] the same by the names of policies
//! "cost": 5 or "cost_each": [1, 5]                    the same cost for each subject, or one number for each
//! ```

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

use super::{Body, Problem};
use crate::request::{Descriptor, MAX_SUBJECTS, Subject};

/// An item of `keys`: a key under a policy that is named.
#[derive(Debug)]
pub(super) struct PolicyKey<'a> {
    policy: Cow<'a, str>,
    key: Cow<'a, str>,
    cost: Option<u64>,
}

/// The fields of an object. By default serde accepts an array of their values as well.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyKeyFields<'a> {
    #[serde(borrow)]
    policy: Cow<'a, str>,
    #[serde(borrow, default)]
    key: Cow<'a, str>,
    #[serde(default)]
    cost: Option<u64>,
}

/// A list of at most [`MAX_SUBJECTS`] items.
#[derive(Debug)]
pub(super) struct Items<T>(pub(super) Vec<T>);

/// Entries by descriptor; in the order in which rules match them.
pub(in crate::http) type DescriptorEntries<'s> = Vec<Vec<(&'s str, &'s str)>>;

impl Body<'_> {
    /// The entries of each descriptor, borrowed.
    pub(in crate::http) fn entries(&self) -> DescriptorEntries<'_> {
        let several = self.descriptors.iter().flat_map(|items| &items.0);
        self.descriptor
            .iter()
            .chain(several)
            .map(|entries| entries.0.iter().map(|(key, value)| (&**key, &**value)).collect())
            .collect()
    }

    /// The subjects. `entries` is what [`entries`](Self::entries) returned.
    pub(in crate::http) fn subjects<'s>(
        &'s self,
        entries: &'s DescriptorEntries<'s>,
    ) -> Result<Vec<Subject<'s>>, Problem> {
        let given = [
            ("key", self.key.is_some()),
            ("descriptor", self.descriptor.is_some()),
            ("descriptors", self.descriptors.is_some()),
            ("keys", self.keys.is_some()),
        ];
        let mut given = given.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name);
        match (given.next(), given.next()) {
            (Some(_), None) => {}
            (None, _) => {
                let message = "the request has neither a key nor a descriptor; give one of them";
                return Err(Problem::bad_request(message));
            }
            (Some(one), Some(other)) => {
                return Err(Problem::bad_request(format!("the request has both a {one} and a {other}; keep one")));
            }
        }
        let mut subjects: Vec<Subject<'s>> = Vec::new();
        subjects.extend(self.key.as_deref().map(Subject::key));
        for entries in entries {
            if entries.is_empty() {
                let message = "the descriptor is empty; give it an entry, such as \"user\": \"42\"";
                return Err(Problem::bad_request(message));
            }
            subjects.push(Subject::descriptor(entries));
        }
        for item in self.keys.iter().flat_map(|items| &items.0) {
            let PolicyKey { policy, key, cost } = item;
            let descriptor = Descriptor::Policy { name: policy, key };
            subjects.push(Subject { descriptor, cost: *cost, ..Subject::key("") });
        }
        if subjects.is_empty() {
            return Err(Problem::bad_request("the list of subjects is empty; give one, such as {\"user\": \"42\"}"));
        }
        subjects.iter_mut().for_each(|subject| subject.rules = self.inline_rules());
        self.set_costs(&mut subjects)?;
        Ok(subjects)
    }

    /// Sets the costs: that of the item, else that of `cost_each`, else `cost`. The cost of a settle is the reserved amount.
    fn set_costs(&self, subjects: &mut [Subject<'_>]) -> Result<(), Problem> {
        if let Some(Items(each)) = &self.cost_each {
            let (found, wanted) = (each.len(), subjects.len());
            if found != wanted || self.cost.is_some() {
                let message = format!(
                    "cost_each has {found} numbers for {wanted} subjects; give one for each, or cost for all of them"
                );
                return Err(Problem::bad_request(message));
            }
            subjects.iter_mut().zip(each).for_each(|(subject, cost)| subject.cost = subject.cost.or(Some(*cost)));
        }
        let same = self.cost.or(self.reserved);
        subjects.iter_mut().for_each(|subject| subject.cost = subject.cost.or(same));
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for PolicyKey<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = PolicyKey<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object such as {\"policy\":\"per-user\",\"key\":\"42\"}")
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<PolicyKey<'de>, M::Error> {
                let fields = PolicyKeyFields::deserialize(MapAccessDeserializer::new(map))?;
                Ok(PolicyKey { policy: fields.policy, key: fields.key, cost: fields.cost })
            }
        }
        deserializer.deserialize_map(KeyVisitor)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
            type Value = Items<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, list: S) -> Result<Items<T>, S::Error> {
                read_items(list).map(Items)
            }
        }
        deserializer.deserialize_seq(ItemsVisitor(std::marker::PhantomData))
    }
}

/// The items of a list, bounded.
fn read_items<'de, T: Deserialize<'de>, S: SeqAccess<'de>>(mut list: S) -> Result<Vec<T>, S::Error> {
    let mut items = Vec::new();
    while let Some(item) = list.next_element()? {
        if items.len() == MAX_SUBJECTS {
            return Err(S::Error::custom(format_args!("a list of more than {MAX_SUBJECTS} items, which is the most")));
        }
        items.push(item);
    }
    Ok(items)
}
