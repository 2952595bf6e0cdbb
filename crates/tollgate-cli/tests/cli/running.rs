//! A `tollgate serve` of one's own, on free ports, for one test.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Stdio},
    thread::JoinHandle,
};

use crate::desk::Desk;

pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) http: String,
    pub(crate) admin: String,
    pub(crate) greeting: Vec<String>,
    log: Option<JoinHandle<String>>,
}

impl Running {
    /// Started with these words, and waited for until it has said where it listens.
    pub(crate) fn start(desk: &Desk, more: &[&str]) -> Self {
        let words = [&["serve", "--http", "0", "--admin", "0", "--grpc", "0", "--resp", "0"], more].concat();
        let mut child = desk.command(&words).stdin(Stdio::null()).spawn().unwrap();
        let mut log = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = log.read_to_string(&mut text);
            text
        });
        let mut greeting = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            let last = line.starts_with("  admin");
            greeting.push(line);
            if last {
                break;
            }
        }
        let address = |wire: &str| {
            let line = greeting.iter().find(|line| line.trim_start().starts_with(wire));
            let line = line.unwrap_or_else(|| panic!("no {wire} in {greeting:?}"));
            let (_, rest) = line.split_once("http://").unwrap();
            rest.split('/').next().unwrap().to_owned()
        };
        Self { http: address("http"), admin: address("admin"), greeting, child, log: Some(log) }
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end: the exit code and the log.
    pub(crate) fn end(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, self.log.take().unwrap().join().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
