//! Rule files: parsed, or refused with a location and a message; no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratekeeper_rules::{Format, read_str};

fuzz_target!(|input: &str| {
    for format in [Format::Yaml, Format::Toml, Format::Json] {
        if let Err(problems) = read_str("fuzzed", input, format) {
            assert!(problems.iter().all(|problem| problem.line > 0 && !problem.message.is_empty()));
        }
    }
});
