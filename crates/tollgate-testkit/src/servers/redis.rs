//! One server process, from its start to its end.
//!
//! A handle can be shared between threads: a test may kill or pause the server while others are talking to it.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::PathBuf,
    process::Child,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;

use super::{
    Acl, Connection, FakeClock, RedisBuilder, Reply,
    builder::{DATA, SOCKET},
    ports, spawn,
};

/// A Redis or Valkey of one's own. Killed, and its directory removed, when dropped.
#[derive(Debug)]
pub struct RedisServer {
    choices: RedisBuilder,
    port: u16,
    launch: Launch,
    /// Nothing while the server is down.
    child: Mutex<Option<Child>>,
    home: TempDir,
}

/// How to start the process, the first time and again.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) clock: Option<FakeClock>,
}

impl RedisServer {
    /// A plain Redis without persistence.
    #[track_caller]
    pub fn start() -> Self {
        Self::with().start()
    }

    /// A server with choices.
    pub fn with() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// One try to start; what went wrong, log included, if it did not work out.
    pub(super) fn launch(choices: &RedisBuilder) -> Result<Self, String> {
        let home = tempfile::Builder::new().prefix("tollgate-").tempdir().expect("a temporary directory");
        let port = choices.port.unwrap_or_else(ports::free);
        let launch = choices.furnish(home.path(), port);
        let server = Self { choices: choices.clone(), port, launch, child: Mutex::new(None), home };
        server.run()?;
        Ok(server)
    }

    /// The TCP port on loopback, TLS or not.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where a client connects, with the password if there is one for everybody.
    pub fn url(&self) -> String {
        match self.password() {
            Some(password) => self.url_as("", password),
            None => format!("{}://{}", self.scheme(), self.address()),
        }
    }

    /// Where a client connects as a user of the [`Acl`].
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("{}://{user}:{password}@{}", self.scheme(), self.address())
    }

    /// The clock of a server started with [`RedisBuilder::fake_clock`].
    #[track_caller]
    pub fn clock(&self) -> &FakeClock {
        self.launch.clock.as_ref().expect("start the server with `fake_clock`")
    }

    /// Asks one question on a connection of its own, with all rights, whatever users and passwords clients need.
    ///
    /// # Panics
    ///
    /// When no answer comes within five seconds. An error that the server sends is an answer.
    #[track_caller]
    pub fn command<W: AsRef<[u8]>>(&self, words: &[W]) -> Reply {
        self.try_command(words, PATIENCE).unwrap_or_else(|error| {
            let first = words.first().map(|word| String::from_utf8_lossy(word.as_ref())).unwrap_or_default();
            panic!("{first} got no answer from {}: {error}; the log:\n{}", self.address(), self.log())
        })
    }

    /// The same for a server that may be down, paused or busy.
    pub fn try_command<W: AsRef<[u8]>>(&self, words: &[W], within: Duration) -> io::Result<Reply> {
        self.connect(within)?.ask(words)
    }

    /// A conversation with all rights.
    pub fn connect(&self, within: Duration) -> io::Result<Connection> {
        let mut connection = Connection::open(&self.home.path().join(SOCKET), within)?;
        if self.choices.acl.is_some() {
            let _ = connection.ask(&["AUTH", Acl::KEEPER, Acl::KEEPER_PASSWORD])?.expect_ok();
        } else if let Some(password) = self.password() {
            let _ = connection.ask(&["AUTH", password])?.expect_ok();
        }
        Ok(connection)
    }

    /// One field of `INFO`, such as `master_link_status`; nothing when it is not listed or the server does not answer.
    pub fn info(&self, field: &str) -> Option<String> {
        let info = self.try_command(&["INFO"], GLANCE).ok()?.text();
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        Some(value.into())
    }

    /// Ends the server without a warning (SIGKILL). Its data is kept for [`Self::restart`]; it may be down already.
    pub fn kill(&self) {
        if let Some(mut child) = self.child().take() {
            child.kill().expect("a child can be killed");
            child.wait().expect("a killed child ends");
        }
    }

    /// Starts the server again on the same port and data, and waits until it answers. Kills it first if it runs.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        self.run().unwrap_or_else(|log| panic!("the server did not come back: {log}"));
    }

    /// The same with all data lost. A cluster node keeps its name and slots.
    #[track_caller]
    pub fn restart_empty(&self) {
        self.kill();
        let data = self.home.path().join(DATA);
        fs::remove_dir_all(&data).and_then(|()| fs::create_dir(&data)).expect("the directory is ours");
        self.restart();
    }

    /// Freezes the server (SIGSTOP): connections stay open and new ones are taken by the kernel, but nothing answers.
    /// Once this returns, not one more command is carried out.
    #[track_caller]
    pub fn pause(&self) {
        let pid = self.signal(Signal::STOP);
        // The signal is only on its way; wait until the process has stopped. A crash would end the wait as well.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), stopped).expect("the process is our child");
    }

    /// Thaws a paused server (SIGCONT). It then carries out what has reached it meanwhile.
    #[track_caller]
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Whether the process runs, paused or not.
    pub fn is_running(&self) -> bool {
        self.child().as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// What the server has written so far, all lives included.
    pub fn log(&self) -> String {
        fs::read_to_string(self.home.path().join(LOG)).unwrap_or_default()
    }

    pub(super) fn password(&self) -> Option<&str> {
        self.choices.password.as_deref()
    }

    fn scheme(&self) -> &'static str {
        if self.choices.tls.is_some() { "rediss" } else { "redis" }
    }

    fn run(&self) -> Result<(), String> {
        // A killed server leaves its socket behind, and connecting to that would look like a server that refuses.
        let _ = fs::remove_file(self.home.path().join(SOCKET));
        let log = File::options().create(true).append(true).open(self.home.path().join(LOG)).expect("a log file");
        let mut command = spawn::leashed(self.launch.program.clone());
        command.args(&self.launch.arguments);
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        if let Some(clock) = &self.launch.clock {
            command.envs(clock.environment());
        }
        let child = spawn::spawn(command).map_err(|error| format!("{}: {error}", self.launch.program.display()))?;
        *self.child() = Some(child);
        self.wait_for_answer()
    }

    fn wait_for_answer(&self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            // While loading its data a server answers with an error.
            if let Ok(Reply::Status(_)) = self.try_command(&["PING"], GLANCE) {
                return Ok(());
            }
            let problem = if !self.is_running() {
                "it ended at once"
            } else if start.elapsed() > START_BOUND {
                "no answer in time"
            } else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            return Err(format!("{problem}; its log:\n{}", self.log()));
        }
    }

    fn signal(&self, signal: Signal) -> Pid {
        let child = self.child();
        let child = child.as_ref().expect("the server is down");
        let pid = Pid::from_child(child);
        kill_process(pid, signal).expect("a child can be signalled");
        pid
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        // A panic under this lock has failed its test already; the others still want their server killed.
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Far above what any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);
/// For questions that are asked again when nothing comes back.
const GLANCE: Duration = Duration::from_secs(1);
const START_BOUND: Duration = Duration::from_secs(10);
const LOG: &str = "server.log";
