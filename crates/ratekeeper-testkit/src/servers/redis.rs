//! One Redis or Valkey server process.
//!
//! A handle can be shared between threads: a test may kill or pause the server while other threads use it.

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

/// A Redis or Valkey for one test. Killed, and its directory removed, when dropped.
#[derive(Debug)]
pub struct RedisServer {
    settings: RedisBuilder,
    port: u16,
    launch: Launch,
    /// `None` while the server is down.
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

    /// A server with settings.
    pub fn with() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// One attempt to start; the error contains the log.
    pub(super) fn launch(settings: &RedisBuilder) -> Result<Self, String> {
        let home = tempfile::Builder::new().prefix("ratekeeper-").tempdir().expect("a temporary directory");
        let port = settings.port.unwrap_or_else(ports::free);
        let launch = settings.write_files(home.path(), port);
        let server = Self { settings: settings.clone(), port, launch, child: Mutex::new(None), home };
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

    /// The address for clients, with the password of the default user, if there is one.
    pub fn url(&self) -> String {
        match self.password() {
            Some(password) => self.url_as("", password),
            None => format!("{}://{}", self.scheme(), self.address()),
        }
    }

    /// The address for a client that is a user of the [`Acl`].
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("{}://{user}:{password}@{}", self.scheme(), self.address())
    }

    /// The clock of a server started with [`RedisBuilder::fake_clock`].
    #[track_caller]
    pub fn clock(&self) -> &FakeClock {
        self.launch.clock.as_ref().expect("start the server with `fake_clock`")
    }

    /// Sends one command on a new connection with all rights, whatever users and passwords clients need.
    ///
    /// # Panics
    ///
    /// If no reply arrives within five seconds. An error reply is a reply.
    #[track_caller]
    pub fn command<W: AsRef<[u8]>>(&self, words: &[W]) -> Reply {
        self.try_command(words, TIMEOUT).unwrap_or_else(|error| {
            let first = words.first().map(|word| String::from_utf8_lossy(word.as_ref())).unwrap_or_default();
            panic!("{first} got no reply from {}: {error}; the log:\n{}", self.address(), self.log())
        })
    }

    /// The same for a server that may be down, paused or busy.
    pub fn try_command<W: AsRef<[u8]>>(&self, words: &[W], within: Duration) -> io::Result<Reply> {
        self.connect(within)?.ask(words)
    }

    /// A connection with all rights.
    pub fn connect(&self, within: Duration) -> io::Result<Connection> {
        let mut connection = Connection::open(&self.home.path().join(SOCKET), within)?;
        if self.settings.acl.is_some() {
            let _ = connection.ask(&["AUTH", Acl::ADMIN, Acl::ADMIN_PASSWORD])?.expect_ok();
        } else if let Some(password) = self.password() {
            let _ = connection.ask(&["AUTH", password])?.expect_ok();
        }
        Ok(connection)
    }

    /// One field of `INFO`, such as `master_link_status`; `None` if it is not listed or the server does not answer.
    pub fn info(&self, field: &str) -> Option<String> {
        let info = self.try_command(&["INFO"], POLL_TIMEOUT).ok()?.text();
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        Some(value.into())
    }

    /// Kills the server (SIGKILL) if it runs. Its data is kept for [`Self::restart`].
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
        self.run().unwrap_or_else(|log| panic!("the server did not restart: {log}"));
    }

    /// Restarts the server without its data. A cluster node keeps its id and slots.
    #[track_caller]
    pub fn restart_empty(&self) {
        self.kill();
        let data = self.home.path().join(DATA);
        fs::remove_dir_all(&data).and_then(|()| fs::create_dir(&data)).expect("the directory is writable");
        self.restart();
    }

    /// Pauses the server (SIGSTOP): connections stay open and the kernel accepts new ones, but there are no replies. After
    /// this call no command is executed.
    #[track_caller]
    pub fn pause(&self) {
        let pid = self.signal(Signal::STOP);
        // The signal is asynchronous, so this waits until the process has stopped, or has ended.
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), stopped).expect("the process is our child");
    }

    /// Resumes a paused server (SIGCONT). It then executes the commands that arrived meanwhile.
    #[track_caller]
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Whether the process runs, paused or not.
    pub fn is_running(&self) -> bool {
        self.child().as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// The server's log so far, over all starts.
    pub fn log(&self) -> String {
        fs::read_to_string(self.home.path().join(LOG)).unwrap_or_default()
    }

    pub(super) fn password(&self) -> Option<&str> {
        self.settings.password.as_deref()
    }

    fn scheme(&self) -> &'static str {
        if self.settings.tls.is_some() { "rediss" } else { "redis" }
    }

    fn run(&self) -> Result<(), String> {
        // A killed server leaves its socket file behind, which would refuse connections.
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
            // While a server loads its data, it replies with an error.
            if let Ok(Reply::Status(_)) = self.try_command(&["PING"], POLL_TIMEOUT) {
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
        // A panic under this lock has failed its test; the server is killed nevertheless.
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Far above the time of any reply on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(5);
/// For commands that are repeated if there is no reply.
const POLL_TIMEOUT: Duration = Duration::from_secs(1);
const START_BOUND: Duration = Duration::from_secs(10);
const LOG: &str = "server.log";
