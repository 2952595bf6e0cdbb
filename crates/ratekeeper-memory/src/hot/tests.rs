//! Hot slots: insertion, lookup, removal and drain per shard.

use super::*;
use crate::{
    entry::KeyWords,
    version_tag::{Serial, VersionTag},
};

fn key(name: &[u8], used: u64) -> HotKey {
    let meter = Meter { at: Timestamp::from_micros(2), used };
    HotKey { words: KeyWords::of(name, || unreachable!("short")), version: Serial(3), meter }
}

fn wanted(name: &[u8], version: u64) -> WantedKey {
    WantedKey::new(0, key(name, 0).words, VersionTag::new(Serial(version)))
}

#[test]
fn a_key_comes_home_as_it_went() {
    let hot = Hot::new(2, 4);
    let names: [&[u8]; WAYS] = [b"a", b"b", b"c", b"d"];
    for (name, used) in names.into_iter().zip(7..) {
        assert_eq!(hot.insert(0, key(name, used)), None);
    }
    let replaced = hot.insert(0, key(b"e", 11)).unwrap();
    assert!(names.into_iter().zip(7..).any(|(name, used)| replaced == key(name, used)));
    assert_eq!(hot.peek(wanted(b"e", 3)), Some(key(b"e", 11).meter));
    assert_eq!(hot.remove(wanted(b"e", 3)), Some(key(b"e", 11).meter));
    assert_eq!(hot.remove(wanted(b"e", 3)), None);
    assert_eq!(hot.drain_shard(1).count(), 0);
    assert_eq!(hot.drain_shard(0).count(), WAYS - 1);
}

/// A key in any slot of its set is found, or reported as uncertain; a key in no slot is reported as absent.
#[test]
fn keys_in_far_slots_are_found() {
    let hot = Hot::new(1, 1);
    let is_absent = |name: &[u8], hash| {
        matches!(hot.probe(WantedKey::new(hash, key(name, 0).words, VersionTag::new(Serial(3)))), Probe::Absent)
    };
    let names: [&[u8]; WAYS] = [b"a", b"b", b"c", b"d"];
    // All four have the same preferred slot.
    let hash = |number: u64| number << 40;
    for (name, number) in names.into_iter().zip(1..) {
        assert!(is_absent(name, hash(number)));
        assert_eq!(hot.insert(hash(number), key(name, number)), None);
        assert!(!is_absent(name, hash(number)));
    }
    assert!(is_absent(b"e", hash(5)));
    let fourth = WantedKey::new(hash(4), key(b"d", 0).words, VersionTag::new(Serial(3)));
    assert_eq!(hot.remove(fourth), Some(key(b"d", 4).meter));
    assert!(is_absent(b"d", hash(4)) && !is_absent(b"c", hash(3)));
    assert_eq!(hot.drain_shard(0).count(), 3);
    assert!(is_absent(b"c", hash(3)));
}

#[test]
fn a_set_belongs_to_one_shard() {
    let hot = Hot::new(4, 2);
    for slot in 0..4 * 2 * WAYS as u64 {
        assert_eq!(hot.insert(slot << SLOT_BITS, key(&slot.to_le_bytes(), slot)), None);
    }
    for shard in 0..4 {
        let all: Vec<u64> = hot.drain_shard(shard).map(|key| key.meter.used << SLOT_BITS).collect();
        assert_eq!(all.len(), 2 * WAYS);
        assert!(all.iter().all(|&hash| Hot::shard_of(hash, 4) == shard && hot.set_in_shard(hash) < 2), "{all:?}");
    }
}

#[test]
fn the_same_key_under_another_version_is_another() {
    let hot = Hot::new(1, 1);
    let _ = hot.insert(0, key(b"a", 7));
    assert_eq!(hot.remove(wanted(b"a", 4)), None);
}

/// No bit is set in the words of the empty key, nor in an empty slot.
#[test]
fn a_superseded_version_matches_no_slot() {
    let hot = Hot::new(1, 1);
    let none = |name: &[u8]| WantedKey::new(0, key(name, 0).words, VersionTag::from_word(VersionTag::NONE));
    for name in [&b""[..], b"a", b"sixteen bytes ..."[..16].as_ref()] {
        assert!(!matches!(hot.probe(none(name)), Probe::Found(_)));
        assert_eq!(hot.insert(0, key(name, 7)), None);
        assert!(!matches!(hot.probe(none(name)), Probe::Found(_)));
        assert_eq!(hot.peek(none(name)), None);
    }
}

#[test]
fn without_slots_no_key_is_hot() {
    let hot = Hot::new(4, 0);
    assert_eq!(hot.insert(0, key(b"a", 7)), None);
    assert_eq!(hot.sets_each(), 0);
    assert_eq!(hot.remove(wanted(b"a", 3)), None);
}
