//! Memory bound of `simulate` on large files.

use std::{
    fs,
    io::{BufWriter, Read, Write},
    process::{ChildStdin, Stdio},
    thread,
};

use crate::fixture::Fixture;

const ROWS: u64 = 1_000_000;

/// Writes a million requests of a hundred thousand keys while they are read.
fn send(input: ChildStdin) {
    let mut input = BufWriter::new(input);
    writeln!(input, "at_ms,key,cost,op").unwrap();
    for row in 0..ROWS {
        let user = row.wrapping_mul(2_654_435_761) % 100_000;
        writeln!(input, "{}.{:03},user:{user},{},", row / 10, row % 10, 1 + row % 3).unwrap();
    }
}

/// Peak memory of a running process, in KiB.
fn peak_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(target_os = "linux")]
#[test]
fn a_million_requests_are_decided_in_bounded_memory() {
    let fixture = Fixture::with_rules(&[
        "name: burst, algorithm: token_bucket, limit: 10, per: 1m, burst: 20",
        "name: day, algorithm: fixed_window, limit: 1000, per: 1d",
    ]);
    let mut child = fixture
        .command(&["simulate", "--rules", "rules.yaml", "--requests", "-", "--summary", "--plot", "out.svg"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let sender = thread::spawn(move || send(input));
    let mut output = child.stdout.take().unwrap();
    let (mut lines, mut peak, mut page) = (0, 0, vec![0; 1 << 20]);
    loop {
        let count = output.read(&mut page).unwrap();
        peak = peak.max(peak_kib(child.id()).unwrap_or(0));
        lines += page[..count].iter().filter(|&&byte| byte == b'\n').count() as u64;
        if count == 0 {
            break;
        }
    }
    sender.join().unwrap();
    let run = child.wait_with_output().unwrap();
    assert_eq!((run.status.code(), lines), (Some(0), ROWS));
    let summary = String::from_utf8(run.stderr).unwrap();
    assert!(summary.starts_with("policy per-user: 1000000 requests, "), "{summary}");
    // Take history, peak windows and keys.
    assert!(peak > 1_000 && peak < 200_000, "{peak} KiB");
}
