//! Value types of fields: deserialization, schema, and the error text for accepted values.

use std::{borrow::Cow, fmt};

use ratekeeper_core::{Period, Timestamp, UtcOffset, Zone, bounds::MAX_PERMITS};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use crate::{duration, offset, timestamp};

/// A number of permits or slices, at least one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Count(pub(crate) u64);

/// A number of requests; 0 is valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Requests(pub(crate) u64);

/// A span of time, or a calendar month.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DurationWord(pub(crate) Period);

/// Permits per second, at least one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RateWord(pub(crate) u64);

/// An offset from UTC.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Offset(pub(crate) UtcOffset);

/// A time zone of the IANA database.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ZoneWord(pub(crate) Zone);

/// An instant, not before 1970.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Moment(pub(crate) Timestamp);

/// The value of a descriptor entry: `*`, or a literal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct MatchWord(pub(crate) String);

/// The values of a descriptor entry in a pattern: one [`MatchWord`], or a list of literals. The items of a list are read
/// from the document tree, so that each mistake has its location.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct MatchWords;

/// `true`. The opposite is expressed by leaving the field out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct OnlyTrue;

/// Visitor of whole numbers. `expecting` completes the message "limit is …; use …".
struct Whole;
struct Word<T> {
    expecting: &'static str,
    read: fn(&str) -> Result<T, String>,
    /// The message for a bare number, if there is a more specific one than "use …".
    number: fn(u64) -> Option<String>,
}

impl de::Visitor<'_> for Whole {
    type Value = u64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number in digits, such as 100")
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }
}

impl<T> de::Visitor<'_> for Word<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }
    fn visit_str<E: de::Error>(self, word: &str) -> Result<T, E> {
        (self.read)(word).map_err(E::custom)
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        match (self.number)(number) {
            Some(message) => Err(E::custom(message)),
            None => Err(E::invalid_type(de::Unexpected::Unsigned(number), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(Whole).map(Self)
    }
}

impl<'de> Deserialize<'de> for Requests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(Whole).map(Self)
    }
}

impl<'de> Deserialize<'de> for DurationWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Word {
            expecting: "a span of time such as 250ms, 1s or 1h30m",
            read: |word| duration::parse(word).map(Self),
            number: |number| Some(duration::no_unit(&number.to_string())),
        })
    }
}

impl<'de> Deserialize<'de> for RateWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Word {
            expecting: "permits per second, such as 100/s",
            read: |word| rate(word).map(Self),
            number: |number| Some(format!("a number without a unit; write it per second, such as {}/s", number.max(1))),
        })
    }
}

/// Permits per second of `100/s`. The error completes the sentence "hot is …, ".
fn rate(word: &str) -> Result<u64, String> {
    let digits = word.strip_suffix("/s").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.map(str::parse::<u64>) {
        Some(Ok(number)) if (1..=MAX_PERMITS).contains(&number) => Ok(number),
        Some(Ok(0)) => Err("so every key would be hot; use 1/s or more".to_owned()),
        Some(_) if word != "/s" => Err(format!("beyond what can be counted; use at most {MAX_PERMITS}/s")),
        _ => Err("which is no rate; use permits per second, such as 100/s".to_owned()),
    }
}

impl<'de> Deserialize<'de> for Offset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Word {
            expecting: "an offset in quotes, such as \"+02:00\"",
            read: |word| offset::parse(word).map(Self),
            number: |_| None,
        })
    }
}

impl<'de> Deserialize<'de> for ZoneWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Word {
            expecting: "a time zone such as Europe/Berlin",
            read: |word| {
                let unknown = "which is no time zone; use a name of the IANA database, such as Europe/Berlin";
                Zone::named(word).map(Self).ok_or_else(|| unknown.to_owned())
            },
            number: |_| None,
        })
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Word {
            expecting: timestamp::EXAMPLE,
            read: |word| timestamp::parse(word).map(Self),
            number: |_| None,
        })
    }
}

impl<'de> Deserialize<'de> for MatchWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Word {
            expecting: "\"*\" for any value, or a literal in quotes",
            read: |word| Ok(Self(word.to_owned())),
            number: |number| Some(number_in_match(number)),
        })
    }
}

impl<'de> Deserialize<'de> for MatchWords {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;
        impl<'de> de::Visitor<'de> for Values {
            type Value = MatchWords;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"*\" for any value, a literal in quotes, or a list of literals")
            }
            fn visit_str<E: de::Error>(self, _: &str) -> Result<MatchWords, E> {
                Ok(MatchWords)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<MatchWords, E> {
                Err(E::custom(number_in_match(number)))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<MatchWords, A::Error> {
                while items.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(MatchWords)
            }
        }
        deserializer.deserialize_any(Values)
    }
}

/// The message for a bare number in place of a descriptor value.
pub(crate) fn number_in_match(number: impl fmt::Display) -> String {
    format!("a number, where values are text; put it in quotes: \"{number}\"")
}

impl<'de> Deserialize<'de> for OnlyTrue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Flag;
        impl de::Visitor<'_> for Flag {
            type Value = OnlyTrue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true")
            }
            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<OnlyTrue, E> {
                if flag { Ok(OnlyTrue) } else { Err(E::custom("the same as without it; leave it out")) }
            }
        }
        deserializer.deserialize_any(Flag)
    }
}

macro_rules! schema {
    ($type:ident, $name:literal, $($schema:tt)*) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($($schema)*)
            }
        }
    };
}

schema!(Count, "Count", { "type": "integer", "minimum": 1, "maximum": MAX_PERMITS });
schema!(Requests, "Requests", { "type": "integer", "minimum": 0, "maximum": MAX_PERMITS });
schema!(DurationWord, "Duration", {
    "description": "Whole numbers with units, the largest first: 250ms, 1s, 1h30m, 1d, 1w; 1mo is a calendar month, 1y a calendar year.",
    "type": "string",
    "pattern": "^(1mo|1y|([0-9]+(us|ms|s|m|h|d|w))+)$",
});
schema!(RateWord, "Rate", {
    "description": "Permits per second: 100/s.",
    "type": "string",
    "pattern": "^0*[1-9][0-9]*/s$",
});
schema!(Offset, "UtcOffset", { "type": "string", "pattern": "^(Z|UTC|[+-][01][0-9]:[0-5][0-9])$" });
schema!(ZoneWord, "Zone", {
    "description": "A name of the IANA time zone database, such as Europe/Berlin.",
    "type": "string",
    "pattern": "^[A-Za-z]",
});
schema!(Moment, "Moment", {
    "description": "A date, a time and an offset: 2027-01-31T23:59:59Z or 2027-01-31T18:00:00+02:00.",
    "type": "string",
    "format": "date-time",
});
schema!(MatchWord, "MatchValue", {
    "description": "\"*\" for any value, which becomes part of the key, or a literal.",
    "type": "string",
    "minLength": 1,
    "maxLength": 256,
});

schema!(MatchWords, "MatchValues", {
    "description": "\"*\" for any value, which becomes part of the key, a literal, or a list of literals.",
    "anyOf": [
        { "type": "string", "minLength": 1, "maxLength": 256 },
        {
            "type": "array",
            "minItems": 1,
            "uniqueItems": true,
            "items": { "type": "string", "minLength": 1, "maxLength": 256 },
        },
    ],
});
schema!(OnlyTrue, "OnlyTrue", { "const": true });

/// Requires exactly one of `rules`, `deny` and `unlimited`.
pub(super) fn rules_or_effect(schema: &mut Schema) {
    let only = |field: &str| serde_json::json!({ "required": [field] });
    schema.insert("oneOf".to_owned(), Value::Array(["rules", "deny", "unlimited"].map(only).into()));
}

/// Removes `null` from a schema. Empty fields are errors in the native format, although the Rust type is an `Option`.
pub(super) fn never_null(schema: &mut Schema) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|kind| kind != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                property.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(mut choices)) = property.remove("anyOf") {
            choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
            for (key, value) in choices.into_iter().filter_map(|choice| choice.as_object().cloned()).flatten() {
                property.insert(key, value);
            }
        }
    }
}
