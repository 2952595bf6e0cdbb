use std::{hint::black_box, time::Instant};

use super::*;

fn set(patterns: &[String]) -> Wildcards<usize> {
    let wildcards = patterns.iter().enumerate();
    Wildcards::new(wildcards.map(|(index, pattern)| (Wildcard::new(pattern).unwrap(), index)).collect())
}

/// The oracle: tries one pattern after the other.
fn in_turn(patterns: &[String], value: &str) -> Option<usize> {
    patterns.iter().position(|pattern| Wildcard::new(pattern).unwrap().matches(value))
}

#[test]
fn the_first_pattern_of_the_file_wins() {
    let patterns = ["/api/*/a", "/a*", "*", "/api/*"].map(str::to_owned);
    let set = set(&patterns);
    for (value, found) in [("/api/1/a", 0), ("/api/1", 1), ("/a", 1), ("", 2), ("x", 2)] {
        assert_eq!(set.find(value), Some(&found), "{value}");
    }
    assert_eq!(Wildcards::<usize>::default().find("x"), None);
}

/// Random patterns and values over two letters, so that prefixes nest, texts overlap and most patterns nearly match.
/// The number of patterns is on both sides of `FEW`.
#[test]
fn all_together_find_what_each_alone_finds() {
    let mut state = 11_u64;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let (mut by_search, mut found) = (0, 0);
    for _ in 0..4_000 {
        let count = 1 + below(24);
        let mut word = |letters: &[u8], longest: usize| -> String {
            (0..below(longest + 1)).map(|_| char::from(letters[below(letters.len())])).collect()
        };
        let patterns: Vec<String> = (0..count).map(|_| word(b"ab**", 8) + "*" + &word(b"ab*", 3)).collect();
        let set = set(&patterns);
        for _ in 0..20 {
            let value = word(b"ab", 14);
            let expected = in_turn(&patterns, &value);
            assert_eq!(set.find(&value).copied(), expected, "{value} in {patterns:?}");
            let inner = set.candidates(&value).iter().filter(|one| !set.patterns[**one].0.inner().is_empty()).count();
            by_search += usize::from(inner > FEW);
            found += usize::from(expected.is_some());
        }
    }
    assert!(by_search > 10_000 && found > 10_000, "{by_search} by the automaton, {found} found");
}

/// Prints the cost of the worst case: 1 000 patterns that a value of 64 KiB nearly matches, and the last one matches.
/// `cargo test --release -p ratekeeper-rules --lib wildcards -- --ignored --nocapture`
#[test]
#[ignore = "a measurement; it prints and asserts nothing about time"]
fn cost_of_a_thousand_patterns_and_long_values() {
    let patterns: Vec<String> = (1_000..2_000).map(|number| format!("*a{number}*b*c")).collect();
    let built = Instant::now();
    let set = set(&patterns);
    println!("indexed in {:?}", built.elapsed());
    for kib in [1, 16, 64] {
        let half = kib * 256;
        let long = format!("{}a1999b{}c", "a1".repeat(half), "x".repeat(half * 2));
        let rounds = 200;
        let began = Instant::now();
        for _ in 0..rounds {
            assert_eq!(set.find(black_box(&long)), Some(&999));
        }
        let together = began.elapsed() / rounds;
        let began = Instant::now();
        assert_eq!(in_turn(&patterns, black_box(&long)), Some(999));
        println!("{kib} KiB: {together:?} together, {:?} in turn", began.elapsed());
    }
}
