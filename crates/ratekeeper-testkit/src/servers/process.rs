//! Child process of a test: any program, with its arguments, environment and log.
//!
//! It can be killed and started again with the same arguments, and ends with the test.

use std::{
    ffi::OsString,
    fs::{self, File},
    path::PathBuf,
    process::Child,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{ports, spawn};

/// A running program. Killed, and its directory removed, when dropped.
#[derive(Debug)]
pub struct Process {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(String, String)>,
    /// `None` while it is down.
    child: Mutex<Option<Child>>,
    home: TempDir,
}

impl Process {
    /// A program to be started with these arguments.
    pub fn new<A: Into<OsString>>(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            child: Mutex::new(None),
            home: tempfile::Builder::new().prefix("ratekeeper-").tempdir().expect("a temporary directory"),
        }
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Starts the program; if it runs, it is killed first.
    #[track_caller]
    pub fn start(&self) {
        self.kill();
        let log = File::options().create(true).append(true).open(self.home.path().join(LOG)).expect("a log file");
        let mut command = spawn::leashed(self.program.clone());
        // Settings of the machine for OpenTelemetry do not apply to programs under test.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"OTEL_")) {
            command.env_remove(name);
        }
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        let child = spawn::spawn(command).unwrap_or_else(|error| panic!("{}: {error}", self.program.display()));
        *self.child() = Some(child);
    }

    /// Kills the program (SIGKILL) if it runs.
    pub fn kill(&self) {
        if let Some(mut child) = self.child().take() {
            child.kill().expect("a child can be killed");
            child.wait().expect("a killed child ends");
        }
    }

    /// Terminates the program (SIGTERM) and waits for its end. Returns the exit code; `None` if a signal ended it.
    #[track_caller]
    pub fn stop(&self) -> Option<i32> {
        let mut child = self.child().take().expect("it runs");
        kill_process(Pid::from_child(&child), Signal::TERM).expect("a child can be signalled");
        child.wait().expect("a child can be waited for").code()
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.child().as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Resident memory in bytes.
    #[track_caller]
    pub fn resident_bytes(&self) -> u64 {
        let id = self.id().expect("it runs");
        let status =
            fs::read_to_string(format!("/proc/{id}/status")).expect("a system with /proc, and a living process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory is reported");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of kB") * 1_024
    }

    /// The process id; `None` while it is down.
    pub fn id(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// Its output so far, over all starts.
    pub fn log(&self) -> String {
        fs::read_to_string(self.home.path().join(LOG)).unwrap_or_default()
    }

    /// A port that is free now, for the program to listen on.
    pub fn free_port() -> u16 {
        ports::free()
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        // A panic under this lock has failed its test; the program is killed nevertheless.
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

const LOG: &str = "program.log";
