//! No text brings the reader down: the samples with bytes flipped, cut off, doubled or lost.
//!
//! Seeded, so that a failure comes back; the failing case is printed with its text. `RATEKEEPER_MUTATIONS` asks for
//! another number of cases.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may say what they expect, too")]

use std::{fs, panic, path::Path};

use ratekeeper_rules::{Format, read_str};

#[test]
fn damaged_files_are_read_or_refused() {
    let samples = samples();
    let mut random = Random(0x5eed_0f70_11ea_7e01);
    let cases = std::env::var("RATEKEEPER_MUTATIONS").ok().and_then(|cases| cases.parse().ok()).unwrap_or(20_000);
    for case in 0..cases {
        let (format, text) = &samples[random.below(samples.len())];
        let mut bytes = text.clone();
        for _ in 0..=random.below(4) {
            damage(&mut bytes, &mut random);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let outcome = panic::catch_unwind(|| read_str("damaged", &text, *format));
        match outcome {
            Ok(Ok(_)) => {}
            Ok(Err(problems)) => {
                // A lone carriage return ends a line in YAML.
                let lines = text.split(['\n', '\r']).count() + 1;
                for problem in &problems {
                    assert!((1..=lines).contains(&problem.line), "case {case}: {problem}\n{text}");
                    assert!(problem.column > 0 && !problem.message.is_empty(), "case {case}: {problem}\n{text}");
                    assert!(!problem.message.contains('\n'), "case {case}: {problem}\n{text}");
                }
            }
            Err(_) => panic!("case {case} panicked on {format:?}:\n{text}"),
        }
    }
}

fn samples() -> Vec<(Format, Vec<u8>)> {
    let mut paths = Vec::new();
    for folder in ["good", "bad"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules").join(folder);
        paths.extend(fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    }
    paths.sort();
    paths.iter().map(|path| (Format::of_path(path).unwrap(), fs::read(path).unwrap())).collect()
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes.truncate(at),
        2 => bytes.insert(at, MEANINGFUL[random.below(MEANINGFUL.len())]),
        3 => bytes[at] = MEANINGFUL[random.below(MEANINGFUL.len())],
        4 => drop(bytes.remove(at)),
        5 => {
            let (start, end) = line_around(bytes, at);
            drop(bytes.drain(start..end));
        }
        6 => {
            let (start, end) = line_around(bytes, at);
            let line = bytes[start..end].to_vec();
            drop(bytes.splice(start..start, line));
        }
        _ => {
            let word = WORDS[random.below(WORDS.len())].as_bytes().to_vec();
            let end = bytes.len().min(at + random.below(6));
            drop(bytes.splice(at..end, word));
        }
    }
}

fn line_around(bytes: &[u8], at: usize) -> (usize, usize) {
    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |newline| at + newline + 1);
    (start, end)
}

/// Bytes that mean something in one of the languages.
const MEANINGFUL: &[u8] = b":-,[]{}#&*!|>'\"%@`?~<= \t\n\r\\\0\xff0";

const WORDS: &[&str] = &[
    "null",
    "true",
    "-1",
    "1e9",
    "0x1",
    "99999999999999999999",
    "[[[[",
    "{a: ",
    "&a ",
    "*a",
    "<<: ",
    "---\n",
    "...\n",
    "!!str ",
    "\u{feff}",
    "\u{2028}",
    "é",
    "? ",
    "- ",
    "|\n",
    ">-\n",
    "%YAML 1.2\n",
    "\"\\u",
    "'''",
    "1mo",
    "limit",
];

/// xorshift64*, enough to stir with.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap_or(0) % end
    }
}
