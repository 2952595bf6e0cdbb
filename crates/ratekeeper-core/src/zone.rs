//! Time zones: the offsets of a place from UTC, over time.
//!
//! The transitions come from the IANA database that is compiled into the program, so nothing is read at run time and two
//! processes of one release agree. A zone is looked up once; afterwards it is a sorted list of instants and offsets.
//!
//! Bound: each zone is read once per process and kept. The database has about 600, with a few hundred transitions each.

use std::{
    collections::HashMap,
    fmt,
    sync::{LazyLock, Mutex, PoisonError},
};

use jiff::tz::TimeZoneDatabase;

use crate::{
    bounds::MAX_TIME,
    calendar::{UtcOffset, as_i64},
};

/// A time zone of the IANA database, or a fixed offset from UTC.
#[derive(Clone, Copy)]
pub struct Zone(&'static ZoneTable);

#[derive(Debug, Eq, PartialEq)]
struct ZoneTable {
    name: String,
    /// Microseconds ahead of UTC before the first transition.
    first: i64,
    /// Instants, and microseconds ahead of UTC from then on.
    transitions: Vec<(i64, i64)>,
}

impl Zone {
    /// The zone of this name, such as `Europe/Berlin`; `None` if the database has none.
    /// `UTC+02:00` is a fixed offset.
    pub fn named(name: &str) -> Option<Self> {
        if let Some(minutes) = name.strip_prefix("UTC").and_then(fixed_minutes) {
            return Some(Self::fixed(UtcOffset::minutes(minutes)));
        }
        let mut zones = ZONES.lock().unwrap_or_else(PoisonError::into_inner);
        let key = name.to_ascii_lowercase();
        if let Some(known) = zones.get(&key) {
            return Some(*known);
        }
        let zone = DATABASE.get(name).ok()?;
        let offset = |at: jiff::Timestamp| i64::from(zone.to_offset(at).seconds()) * SECOND;
        let before = jiff::Timestamp::UNIX_EPOCH;
        let transitions = zone
            .following(before)
            .map(|transition| {
                (transition.timestamp().as_microsecond(), i64::from(transition.offset().seconds()) * SECOND)
            })
            .take_while(|(at, _)| *at <= as_i64(MAX_TIME))
            .collect();
        let name = zone.iana_name().unwrap_or(name).to_owned();
        let table = Box::leak(Box::new(ZoneTable { name, first: offset(before), transitions }));
        zones.insert(key, Self(table));
        Some(Self(table))
    }

    /// A zone without transitions.
    pub fn fixed(offset: UtcOffset) -> Self {
        let mut zones = ZONES.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("UTC{offset}");
        *zones.entry(name.clone()).or_insert_with(|| {
            let first = i64::from(offset.as_minutes()) * 60 * SECOND;
            Self(Box::leak(Box::new(ZoneTable { name, first, transitions: Vec::new() })))
        })
    }

    /// The name: that of the database, or `UTC+02:00`.
    pub fn name(&self) -> &'static str {
        &self.0.name
    }

    /// The local time of an instant, in microseconds as if it were UTC.
    pub(crate) fn local(self, at: i64) -> i64 {
        let table = self.0;
        let after = table.transitions.partition_point(|(from, _)| *from <= at);
        let offset =
            after.checked_sub(1).and_then(|last| table.transitions.get(last)).map_or(table.first, |last| last.1);
        at + offset
    }

    /// The first instant at which the local time is this one or later. In a gap that is its end; of two instants with
    /// the same local time, the earlier.
    pub(crate) fn instant(self, local: i64) -> i64 {
        let table = self.0;
        // No offset is larger than a day and a half, so the instant is in this segment or a later one.
        let mut next = table.transitions.partition_point(|(from, _)| *from <= local - 36 * 3_600 * SECOND);
        loop {
            let (from, offset) = match next.checked_sub(1).and_then(|last| table.transitions.get(last)) {
                Some((from, offset)) => (*from, *offset),
                None => (i64::MIN, table.first),
            };
            let at = from.max(local - offset);
            match table.transitions.get(next) {
                Some((end, _)) if at >= *end => next += 1,
                _ => return at,
            }
        }
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0) || self.0 == other.0
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Zone").field(&self.0.name).finish()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

/// Minutes of `+02:00`.
fn fixed_minutes(text: &str) -> Option<i32> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let two = |digits: &str| if digits.len() == 2 { digits.parse::<i32>().ok().filter(|it| *it >= 0) } else { None };
    let total = two(hours)? * 60 + two(minutes).filter(|minutes| *minutes < 60)?;
    (total <= UtcOffset::MAX_MINUTES).then_some(sign * total)
}

const SECOND: i64 = 1_000_000;

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
static ZONES: LazyLock<Mutex<HashMap<String, Zone>>> = LazyLock::new(Mutex::default);
