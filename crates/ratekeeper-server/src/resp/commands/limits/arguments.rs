//! Arguments of commands on limits: domain, subjects, options.
//!
//! Bound: a command has at most [`MAX_WORDS`](crate::resp::frame::MAX_WORDS) words, so that it has few descriptors.

use ratekeeper_core::{Span, Timestamp, bounds::MAX_TIME};
use smallvec::SmallVec;

use super::{Command, CommandError, numbers};
use crate::{request::Descriptor, resp::commands::shown};

/// The arguments of a command.
pub(super) struct Arguments<'a> {
    pub(super) domain: &'a str,
    pub(super) subjects: Subjects<'a>,
    pub(super) options: Options<'a>,
}

/// The subjects of a command.
pub(in crate::resp::commands) enum Subjects<'a> {
    Key(&'a str),
    Descriptors(Vec<EntryPairs<'a>>),
}

/// The entries of one descriptor.
type EntryPairs<'a> = SmallVec<[(&'a str, &'a str); 4]>;

/// Subjects of a pending command.
#[derive(Debug)]
pub(in crate::resp::commands) enum OwnedSubjects {
    Key(Box<str>),
    Descriptors(Vec<Vec<(Box<str>, Box<str>)>>),
}

/// Options after the subjects, in any order, each at most once.
#[derive(Default)]
pub(super) struct Options<'a>(SmallVec<[(&'static str, &'a [u8]); 4]>);

impl<'a> Arguments<'a> {
    pub(super) fn of(command: Command<'a>, usage: &'static str, known: &[&'static str]) -> Result<Self, CommandError> {
        let (Some(domain), Some(_)) = (command.argument(0), command.argument(1)) else {
            return Err(CommandError::usage(usage));
        };
        let domain = numbers::text("the domain", domain)?;
        let (subjects, next) = Subjects::of(command, usage)?;
        Ok(Self { domain, subjects, options: Options::of(command, next, usage, known)? })
    }
}

impl<'a> Subjects<'a> {
    /// The subjects, and the index of the first argument after them. `ENTRIES` with a number after it begins a
    /// descriptor; without one it is a key.
    fn of(command: Command<'a>, usage: &str) -> Result<(Self, usize), CommandError> {
        let begins = |index: usize| {
            let is_word = command.argument(index).is_some_and(|word| word.eq_ignore_ascii_case(b"ENTRIES"));
            let count = command.argument(index + 1).filter(|count| count.first().is_some_and(u8::is_ascii_digit));
            count.filter(|_| is_word)
        };
        if begins(1).is_none() {
            let key = command.argument(1).ok_or_else(|| CommandError::usage(usage))?;
            return Ok((Self::Key(numbers::text("the key", key)?), 2));
        }
        let (mut descriptors, mut index) = (Vec::new(), 1);
        while let Some(count) = begins(index) {
            let count = numbers::positive("ENTRIES", count)?;
            index += 2;
            let mut entries = EntryPairs::new();
            for _ in 0..count {
                let (Some(name), Some(value)) = (command.argument(index), command.argument(index + 1)) else {
                    return Err(CommandError::because(format_args!(
                        "ENTRIES announces {count} entries, and fewer names and values follow; write {usage}"
                    )));
                };
                let name = numbers::text("the entry", name)?;
                if entries.iter().any(|(other, _)| *other == name) {
                    let name = shown(name.as_bytes());
                    return Err(CommandError::because(format_args!("the entry '{name}' occurs twice in a descriptor")));
                }
                entries.push((name, numbers::text("the value", value)?));
                index += 2;
            }
            descriptors.push(entries);
        }
        Ok((Self::Descriptors(descriptors), index))
    }

    /// What the engine is asked about.
    pub(in crate::resp::commands) fn descriptors(&self) -> impl Iterator<Item = Descriptor<'_>> {
        let (key, descriptors) = match self {
            Self::Key(key) => (Some(Descriptor::Key(key)), &[][..]),
            Self::Descriptors(descriptors) => (None, descriptors.as_slice()),
        };
        key.into_iter().chain(descriptors.iter().map(|entries| Descriptor::Entries(entries)))
    }

    pub(in crate::resp::commands) fn to_owned(&self) -> OwnedSubjects {
        match self {
            Self::Key(key) => OwnedSubjects::Key((*key).into()),
            Self::Descriptors(all) => OwnedSubjects::Descriptors(
                all.iter().map(|one| one.iter().map(|&(name, value)| (name.into(), value.into())).collect()).collect(),
            ),
        }
    }
}

impl OwnedSubjects {
    pub(in crate::resp::commands) fn borrowed(&self) -> Subjects<'_> {
        match self {
            Self::Key(key) => Subjects::Key(key),
            Self::Descriptors(all) => Subjects::Descriptors(
                all.iter().map(|one| one.iter().map(|(name, value)| (&**name, &**value)).collect()).collect(),
            ),
        }
    }
}

impl<'a> Options<'a> {
    fn of(
        command: Command<'a>,
        mut index: usize,
        usage: &'static str,
        known: &[&'static str],
    ) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while let Some(word) = command.argument(index) {
            let name = known.iter().find(|name| word.eq_ignore_ascii_case(name.as_bytes()));
            match (name, command.argument(index + 1)) {
                (Some(name), Some(value)) if options.get(name).is_none() => options.0.push((name, value)),
                (None, _) if known.is_empty() => return Err(CommandError::usage(usage)),
                _ => return Err(CommandError::syntax(word, usage)),
            }
            index += 2;
        }
        Ok(options)
    }

    /// The value of an option.
    pub(super) fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The value of an option that has to be given.
    pub(super) fn required(&self, name: &str, usage: &'static str) -> Result<&'a [u8], CommandError> {
        self.get(name).ok_or_else(|| CommandError::usage(usage))
    }

    /// The time of `AT`, in microseconds since the Unix epoch.
    pub(super) fn at(&self) -> Result<Option<Timestamp>, CommandError> {
        let Some(at) = self.get("AT") else { return Ok(None) };
        let at = Timestamp::EPOCH + Span::from_micros(numbers::whole("AT", at)?);
        if at > MAX_TIME {
            return Err(CommandError::because(format_args!(
                "AT is too late; use at_us of a reply plus its wait_us, microseconds since 1970"
            )));
        }
        Ok(Some(at))
    }
}
