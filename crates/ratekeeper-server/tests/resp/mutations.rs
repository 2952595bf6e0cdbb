//! Mutation test of the RESP wire: damaged input causes no panic, and every reply can be parsed.
//!
//! Seeded, so that a failure is reproducible. `RATEKEEPER_MUTATIONS` sets the number of cases. The fuzz target
//! fuzz/fuzz_targets/resp.rs covers the same path and shares the corpus.

use std::{fs, path::Path};

use ratekeeper_server::{resp::Resp, security::Access};
use ratekeeper_testkit::random::Random;

use crate::support::engine;

#[test]
fn damaged_input_is_answered_or_ends_the_connection() {
    let seeds = seeds();
    let mut random = Random::new(0x4E5F);
    let cases: u64 = std::env::var("RATEKEEPER_MUTATIONS").ok().and_then(|cases| cases.parse().ok()).unwrap_or(20_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (_, engine) = engine();
    let resp = Resp::new(engine, Access::open());
    for case in 0..cases {
        let mut bytes = seeds[usize::try_from(random.below(seeds.len() as u64)).unwrap()].clone();
        for _ in 0..random.between(0, 4) {
            damage(&mut bytes, &mut random, &seeds);
        }
        let at_once = usize::try_from(random.pick(&[1, 2, 7, 64, 100_000])).unwrap();
        let (received, _) = runtime.block_on(resp.converse(&bytes, at_once));
        if let Err(at) = read_replies(&received) {
            panic!(
                "case {case}: {} was answered {}, unreadable at {at}",
                bytes.escape_ascii(),
                received.escape_ascii()
            );
        }
    }
}

/// The replies do not depend on how the bytes are split into packets.
#[test]
fn replies_do_not_depend_on_packets() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut random = Random::new(0x9AC4);
    for seed in seeds() {
        for _ in 0..20 {
            let mut bytes = seed.clone();
            damage(&mut bytes, &mut random, std::slice::from_ref(&seed));
            let answered = [1, 3, 50, 100_000].map(|at_once| {
                let (_, engine) = engine();
                runtime.block_on(Resp::new(engine, Access::open()).converse(&bytes, at_once))
            });
            for other in &answered[1..] {
                assert_eq!(answered[0], *other, "{}", bytes.escape_ascii());
            }
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/resp");
    let mut paths: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 10, "the corpus is there");
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random, seeds: &[Vec<u8>]) {
    if bytes.is_empty() {
        return;
    }
    let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes.truncate(at),
        2 => bytes.insert(at, random.pick(b"*$:+-\r\n0123456789 \"'\\\xff\0")),
        3 => bytes[at] = random.pick(b"*$:+-\r\n0123456789 \"'\\\xff\0"),
        4 => drop(bytes.remove(at)),
        5 => {
            let again = bytes[at..].to_vec();
            bytes.extend(again);
        }
        6 => {
            let other = &seeds[usize::try_from(random.below(seeds.len() as u64)).unwrap()];
            bytes.splice(at..at, other.iter().copied());
        }
        _ => {
            let number = random.pick(&["-1", "0", "64", "65", "65536", "65537", "99999999999", "18446744073709551615"]);
            bytes.splice(at..at, number.bytes());
        }
    }
    bytes.truncate(200_000);
}

/// Parses all replies. The error is the offset of the first one that cannot be parsed.
fn read_replies(bytes: &[u8]) -> Result<(), usize> {
    let mut at = 0;
    while at < bytes.len() {
        at = read_reply(bytes, at)?;
    }
    Ok(())
}

fn read_reply(bytes: &[u8], at: usize) -> Result<usize, usize> {
    let end = bytes[at..].windows(2).position(|two| two == b"\r\n").map(|length| at + length).ok_or(at)?;
    let line = std::str::from_utf8(&bytes[at + 1..end]).map_err(|_| at)?;
    let next = end + 2;
    let number = || line.parse::<i64>().map_err(|_| at);
    match bytes[at] {
        b'+' | b'-' | b'_' => Ok(next),
        b':' => number().map(|_| next),
        b'$' | b'=' if number()? < 0 => Ok(next),
        b'$' | b'=' => {
            let end = next + usize::try_from(number()?).map_err(|_| at)?;
            if bytes.get(end..end + 2) == Some(b"\r\n") { Ok(end + 2) } else { Err(at) }
        }
        kind @ (b'*' | b'%') => {
            let count = number()? * if kind == b'%' { 2 } else { 1 };
            (0..count).try_fold(next, |at, _| if at < bytes.len() { read_reply(bytes, at) } else { Err(at) })
        }
        _ => Err(at),
    }
}
