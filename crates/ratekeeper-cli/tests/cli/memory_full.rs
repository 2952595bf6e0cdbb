//! `serve --memory-full`: decisions about new keys while the memory is full of limited keys.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    thread,
};

use crate::{
    fixture::Fixture,
    serve::FREE,
    server_process::{ServerProcess, TIMEOUT},
};

/// More keys than 1 MiB holds: at 48 bytes each there is room for about 20 000.
const FLOOD: u32 = 40_000;
const NEW: u32 = 2_000;

/// Takes the one permit a day of each key, in one pipeline; returns how many were allowed.
fn allowed(server: &ServerProcess, prefix: &str, keys: u32) -> usize {
    let port = server.line("resp").split_once("-p ").and_then(|(_, rest)| rest.split(' ').next()).unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut requests = stream.try_clone().unwrap();
    let text: String = (0..keys).map(|key| format!("CL.THROTTLE {prefix}{key} 0 1 86400\r\n")).collect();
    let sender = thread::spawn(move || requests.write_all(text.as_bytes()).unwrap());
    // A reply is six lines: `*5`, then `:0` for an allowed request or `:1` for a refused one, then four more integers.
    let lines: Vec<String> = BufReader::new(stream).lines().map(Result::unwrap).take(6 * keys as usize).collect();
    sender.join().unwrap();
    assert!(lines.iter().step_by(6).all(|line| line == "*5"), "{:?}", &lines[..6]);
    lines.iter().skip(1).step_by(6).filter(|verdict| *verdict == ":0").count()
}

fn metric(server: &ServerProcess, name: &str) -> u64 {
    let page = server.ask_admin("/metrics").body;
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
}

/// Allowed new keys, and decisions that were not enforced, once the memory is full.
fn with_full_memory(words: &[&str], variables: &[(&str, &str)]) -> (usize, u64) {
    let fixture = Fixture::new();
    let words = [&["serve", "--memory", "1"], words].concat();
    let server = ServerProcess::launch(&fixture, &words, &[&FREE, variables].concat());
    allowed(&server, "flood", FLOOD);
    assert!(metric(&server, "ratekeeper_overflowed_decisions_total") > 0, "the flood has to fill the memory");
    let before = metric(&server, "ratekeeper_unenforced_decisions_total");
    let allowed = allowed(&server, "new", NEW);
    (allowed, metric(&server, "ratekeeper_unenforced_decisions_total") - before)
}

/// By default new keys share one count per shard, so a few of them pass at most.
#[test]
fn new_keys_are_refused_while_the_memory_is_full() {
    for words in [&[][..], &["--memory-full", "refuse"]] {
        let (allowed, unenforced) = with_full_memory(words, &[]);
        assert!(allowed < 100 && unenforced == 0, "{words:?}: {allowed} of {NEW} allowed, {unenforced} unenforced");
    }
}

#[test]
fn new_keys_are_admitted_with_the_flag_or_the_variable() {
    let flag = with_full_memory(&["--memory-full", "admit"], &[]);
    assert_eq!(flag, (NEW as usize, u64::from(NEW)));
    let variable = with_full_memory(&[], &[("RATEKEEPER_MEMORY_FULL", "admit")]);
    assert_eq!(variable, flag);
}

#[test]
fn other_values_are_refused_with_the_known_ones() {
    let run = Fixture::new().run(&["serve", "--memory-full", "drop"]);
    assert_eq!(run.code, 2);
    for part in ["'drop'", "--memory-full", "refuse, admit"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
}
