//! Entries of a descriptor in JSON: an object of strings.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};

use crate::request::MAX_ENTRIES;

/// A JSON object of strings, in the order of the text: descriptors are matched in order.
#[derive(Debug)]
pub(super) struct Entries<'a>(pub(super) Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings, such as {\"user\":\"42\"}")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries<'de>, M::Error> {
                let mut entries: Vec<(Cow<'de, str>, Cow<'de, str>)> = Vec::new();
                while let Some((Text(key), Text(value))) = map.next_entry()? {
                    // Bounds the comparisons: each key is compared with all before it.
                    if entries.len() == MAX_ENTRIES {
                        return Err(M::Error::custom(format_args!(
                            "a descriptor of more than {MAX_ENTRIES} entries; {MAX_ENTRIES} is the most"
                        )));
                    }
                    if entries.iter().any(|(other, _)| *other == key) {
                        return Err(M::Error::custom(format!(
                            "descriptor entry \"{}\" occurs twice",
                            key.escape_debug()
                        )));
                    }
                    entries.push((key, value));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

/// A string, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
