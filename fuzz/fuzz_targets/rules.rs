//! Rule files: read, or refused with a place and a sentence; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_rules::{Format, read_str};

fuzz_target!(|input: &str| {
    for format in [Format::Yaml, Format::Toml, Format::Json] {
        if let Err(problems) = read_str("fuzzed", input, format) {
            assert!(problems.iter().all(|problem| problem.line > 0 && !problem.message.is_empty()));
        }
    }
});
