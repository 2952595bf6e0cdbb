//! `ratekeeper serve` as a child process on free ports, for one test.
//!
//! Its output goes into files, so that no pipe can fill up and the log can be read while it runs. It ends with the test, even
//! if the test is killed.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use ratekeeper_testkit::servers::{HttpReply, Part, http_get, leashed, require, spawn, wait_until};

use crate::fixture::Fixture;

/// The child process; killed when dropped.
pub(crate) struct ServerProcess {
    child: Child,
    /// The start-up message: listen addresses and commands to try.
    pub(crate) greeting: String,
    out: PathBuf,
    log: PathBuf,
}

impl ServerProcess {
    /// Starts with these arguments and waits until it has printed its addresses.
    pub(crate) fn start(fixture: &Fixture, more: &[&str]) -> Self {
        Self::launch(
            fixture,
            &[&["serve", "--http", "0", "--grpc", "0", "--resp", "0", "--admin", "0"], more].concat(),
            &[],
        )
    }

    /// Starts on a clock that advances less than a quarter of a second, so that no bucket refills during the test.
    pub(crate) fn with_slow_clock(fixture: &Fixture, more: &[&str]) -> Self {
        let library = require(Part::LibFaketime);
        let clock = [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME", "2026-11-16 12:00:00"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
            ("TZ", "UTC"),
        ];
        let serve = ["serve", "--http", "0", "--grpc", "0", "--resp", "0", "--admin", "0"];
        Self::launch(fixture, &[&serve, more].concat(), &clock)
    }

    /// Starts with exactly these arguments and these additional variables.
    pub(crate) fn launch(fixture: &Fixture, words: &[&str], variables: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let (out, log) = (fixture.path(&format!("serve-{number}.out")), fixture.path(&format!("serve-{number}.log")));
        let mut command: Command = leashed(env!("CARGO_BIN_EXE_ratekeeper").into());
        command.args(words).envs(variables.iter().copied()).current_dir(fixture.path(""));
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&log).unwrap());
        let mut server = Self { child: spawn(command).unwrap(), greeting: String::new(), out, log };
        wait_until("the server's greeting", TIMEOUT, || {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", server.log());
            server.greeting = fs::read_to_string(&server.out).unwrap();
            if server.greeting.starts_with('{') && server.greeting.ends_with('\n') {
                server.greeting = as_text(&server.greeting);
                return true;
            }
            // The last line; the one about rules is printed only with the sample rules.
            let last = if server.greeting.contains("the sample rules") { "\n  rules " } else { "\n  admin " };
            server.greeting.split_once(last).is_some_and(|(_, rest)| rest.ends_with('\n'))
        });
        server
    }

    /// Its standard output.
    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    /// The line of a wire in the start-up message.
    pub(crate) fn line(&self, wire: &str) -> &str {
        let found = self.greeting.lines().find_map(|line| line.strip_prefix("  ")?.strip_prefix(wire));
        found.unwrap_or_else(|| panic!("no {wire} in {}", self.greeting)).trim_start()
    }

    /// The listen address, such as `127.0.0.1:8080`.
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

    /// The log so far.
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
        wait_until("the end of the server", TIMEOUT, || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        (ended.and_then(|status| status.code()).unwrap_or(-1), self.log())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn port(address: &str) -> u16 {
    address.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// Host and port of the URL in a line of the start-up message.
fn authority(line: &str) -> &str {
    let (_, rest) = line.split_once("://").unwrap();
    rest.split('/').next().unwrap()
}

/// Far above the time of a start or a stop, even on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Converts a JSON greeting to the text form.
fn as_text(greeting: &str) -> String {
    let printed: serde_json::Value = serde_json::from_str(greeting).unwrap();
    let mut lines = format!("ratekeeper · {}: {} ({})\n", printed["rules"], printed["policies"], printed["domains"]);
    for wire in ["http", "grpc", "resp", "admin"] {
        if let Some(address) = printed[wire].as_str() {
            lines.push_str(&format!("  {wire:<6} {}{address}/\n", if wire == "grpc" { "" } else { "http://" }));
        }
    }
    lines
}
