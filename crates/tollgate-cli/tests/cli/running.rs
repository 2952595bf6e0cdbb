//! A `tollgate serve` of one's own, on free ports, for one test.
//!
//! What it prints goes into files beside its rules, so nobody has to read along for it to go on, and its log can be read
//! while it runs. It ends with the test, even with one that is killed.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tollgate_testkit::servers::{HttpReply, Part, http_get, leashed, require, spawn, wait_until};

use crate::desk::Desk;

pub(crate) struct Running {
    child: Child,
    /// Its first lines: where it listens, and what to try.
    pub(crate) greeting: String,
    out: PathBuf,
    log: PathBuf,
}

impl Running {
    /// Started with these words, and waited for until it has said where it listens.
    pub(crate) fn start(desk: &Desk, more: &[&str]) -> Self {
        Self::launch(
            desk,
            &[&["serve", "--http", "0", "--grpc", "0", "--resp", "0", "--admin", "0"], more].concat(),
            &[],
        )
    }

    /// On a clock that stands still, all but a quarter of a second of it: what drains in a second never has.
    pub(crate) fn at_rest(desk: &Desk, more: &[&str]) -> Self {
        let library = require(Part::LibFaketime);
        let clock = [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME", "2026-11-16 12:00:00"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
            ("TZ", "UTC"),
        ];
        let words = ["serve", "--http", "0", "--grpc", "0", "--resp", "0", "--admin", "0"];
        Self::launch(desk, &[&words, more].concat(), &clock)
    }

    /// With exactly these words, and nothing but these variables on top.
    pub(crate) fn launch(desk: &Desk, words: &[&str], variables: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let (out, log) = (desk.path(&format!("serve-{number}.out")), desk.path(&format!("serve-{number}.log")));
        let mut command: Command = leashed(env!("CARGO_BIN_EXE_tollgate").into());
        command.args(words).envs(variables.iter().copied()).current_dir(desk.path(""));
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&log).unwrap());
        let mut server = Self { child: spawn(command).unwrap(), greeting: String::new(), out, log };
        wait_until("the server's greeting", PATIENCE, || {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", server.log());
            server.greeting = fs::read_to_string(&server.out).unwrap();
            if server.greeting.starts_with('{') && server.greeting.ends_with('\n') {
                server.greeting = for_people(&server.greeting);
                return true;
            }
            // The last line, which tells of rules only to those who brought none.
            let last = if server.greeting.contains("the sample rules") { "\n  rules " } else { "\n  admin " };
            server.greeting.split_once(last).is_some_and(|(_, rest)| rest.ends_with('\n'))
        });
        server
    }

    /// Its standard output, byte by byte.
    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    /// What its greeting says about a wire.
    pub(crate) fn line(&self, wire: &str) -> &str {
        let found = self.greeting.lines().find_map(|line| line.strip_prefix("  ")?.strip_prefix(wire));
        found.unwrap_or_else(|| panic!("no {wire} in {}", self.greeting)).trim_start()
    }

    /// `127.0.0.1:8080`, or where it really listens.
    pub(crate) fn http(&self) -> &str {
        authority(self.line("http"))
    }

    pub(crate) fn admin(&self) -> &str {
        authority(self.line("admin"))
    }

    pub(crate) fn grpc(&self) -> &str {
        self.line("grpc").split(' ').next().unwrap()
    }

    pub(crate) fn ask(&self, path: &str) -> HttpReply {
        http_get(port(self.http()), path, &[]).unwrap()
    }

    pub(crate) fn ask_admin(&self, path: &str) -> HttpReply {
        http_get(port(self.admin()), path, &[("host", "localhost")]).unwrap()
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for its end: the exit code and the log.
    pub(crate) fn end(mut self) -> (i32, String) {
        let mut ended = None;
        wait_until("the end of the server", PATIENCE, || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        (ended.and_then(|status| status.code()).unwrap_or(-1), self.log())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn port(address: &str) -> u16 {
    address.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// Of the address in a line of the greeting.
fn authority(line: &str) -> &str {
    let (_, rest) = line.split_once("://").unwrap();
    rest.split('/').next().unwrap()
}

/// Far above what any start or end takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A greeting for programs, put as one for people.
fn for_people(greeting: &str) -> String {
    let told: serde_json::Value = serde_json::from_str(greeting).unwrap();
    let mut lines = format!("tollgate · {}: {} ({})\n", told["rules"], told["policies"], told["domains"]);
    for wire in ["http", "grpc", "resp", "admin"] {
        if let Some(address) = told[wire].as_str() {
            lines.push_str(&format!("  {wire:<6} {}{address}/\n", if wire == "grpc" { "" } else { "http://" }));
        }
    }
    lines
}
