//! A server of one's own on a free port, by a clock that stands still until it is told otherwise.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use tokio::runtime::Runtime;
use tollgate_core::Micros;
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_redis::{PretendClock, RedisConfig, RedisStore};
use tollgate_rules::{Format, read_str};
use tollgate_server::{
    config::Bounds,
    engine::Engine,
    listen::Listener,
    resp::Resp,
    security::{Access, Tokens},
    shutdown::{self, Stopper},
    telemetry::{Telemetry, Wire},
    wiring::{Storage, StorageSettings},
};

/// Somewhere in 2030.
pub(crate) const START: Micros = Micros(1_900_000_000_000_000);

pub(crate) const RULES: &str = "\
domain: api
policies:
  - name: per-user
    match: { user: \"*\" }
    rules:
      - { name: burst, algorithm: token_bucket, limit: 10, per: 10s, burst: 5 }
";

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) clock: ManualClock,
    pub(crate) engine: Engine,
    stopper: Stopper,
    runtime: Option<Runtime>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(Bounds::default(), Access::open())
    }

    /// One that lets in whoever bears a token of this file.
    pub(crate) fn with_tokens(file: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("tokens");
        std::fs::write(&path, file).unwrap();
        Self::with(Bounds::default(), Access::by(Tokens::read(&path).unwrap()))
    }

    pub(crate) fn with(bounds: Bounds, access: Access) -> Self {
        let (clock, engine) = engine();
        Self::over(clock, engine, runtime(), bounds, access)
    }

    /// One that keeps its limits in a Redis, by that one's clock.
    pub(crate) fn sharing(url: &str) -> Self {
        let runtime = runtime();
        let settings = StorageSettings { deadline: PATIENCE, ..StorageSettings::default() };
        let store = runtime.block_on(Storage::open(url, &settings)).unwrap();
        let engine = Engine::new(store, Arc::default());
        Self::over(ManualClock::default(), engine, runtime, Bounds::default(), Access::open())
    }

    /// The same, by a clock in the test's hands that begins with the others'; and with one thread, so that what a
    /// connection asks in one go also leaves in one.
    pub(crate) fn sharing_by_hand(url: &str, rules: &[&str]) -> (Self, PretendClock) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let clock = PretendClock::default();
        clock.set(START);
        let config = RedisConfig::default().pretend_time(clock.clone()).deadline(PATIENCE);
        let store = runtime.block_on(RedisStore::connect_with(url, config)).unwrap();
        let engine = Engine::new(Storage::Redis(store), Arc::default());
        load(&engine, rules);
        (Self::over(ManualClock::default(), engine, runtime, Bounds::default(), Access::open()), clock)
    }

    fn over(clock: ManualClock, engine: Engine, runtime: Runtime, bounds: Bounds, access: Access) -> Self {
        let (stopper, word) = shutdown::channel();
        let telemetry = Arc::new(Telemetry::default());
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = runtime.block_on(Listener::bind(Wire::Resp, loopback, None, bounds, telemetry)).unwrap();
        let address = listener.address().unwrap();
        runtime.spawn(Resp::new(engine.clone(), access).serve(listener, word));
        Self { address, clock, engine, stopper, runtime: Some(runtime) }
    }

    pub(crate) fn stop(&self) {
        self.stopper.stop();
    }

    pub(crate) fn port(&self) -> String {
        self.address.port().to_string()
    }

    pub(crate) fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(stream)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// The rules above, in memory, by a clock in the test's hands.
pub(crate) fn engine() -> (ManualClock, Engine) {
    let clock = ManualClock::at(START);
    let engine = Engine::new(Storage::ByHand(MemoryStore::with_clock(clock.clone())), Arc::default());
    load(&engine, &[RULES]);
    (clock, engine)
}

pub(crate) fn load(engine: &Engine, rules: &[&str]) {
    let files: Result<Vec<_>, _> = rules.iter().map(|text| read_str("rules.yaml", text, Format::Yaml)).collect();
    engine.load(files).unwrap();
}

/// A client that counts bytes.
pub(crate) struct Client(TcpStream);

impl Client {
    /// The same connection, for a second thread.
    pub(crate) fn another_end(&self) -> Self {
        Self(self.0.try_clone().unwrap())
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends what the server may refuse to take to its end.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.0.write_all(bytes.as_ref());
    }

    /// Whether the server takes these bytes within half a second.
    pub(crate) fn takes(&mut self, bytes: &[u8]) -> bool {
        self.0.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        self.0.write_all(bytes).is_ok()
    }

    /// The next bytes are these.
    #[track_caller]
    pub(crate) fn hears(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let mut bytes = vec![0; expected.len()];
        if let Err(error) = self.0.read_exact(&mut bytes) {
            panic!("{error} while {} was expected; so far: {}", expected.escape_ascii(), bytes.escape_ascii());
        }
        assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    /// One line, which is an error.
    #[track_caller]
    pub(crate) fn hears_error(&mut self, part: &str) {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        assert!(line.starts_with('-') && line.contains(part), "{line:?} does not speak of {part:?}");
    }

    /// An array of integers.
    #[track_caller]
    pub(crate) fn hears_integers(&mut self) -> Vec<i64> {
        let count = self.hears_line('*');
        (0..count).map(|_| self.hears_line(':')).collect()
    }

    fn hears_line(&mut self, kind: char) -> i64 {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        let number = line.trim_end().strip_prefix(kind).and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("{line:?} is no {kind} and a number"))
    }

    #[track_caller]
    pub(crate) fn asks(&mut self, words: &[&str], expected: impl AsRef<[u8]>) {
        self.send(array(words));
        self.hears(expected);
    }

    /// Everything until the server closes.
    #[track_caller]
    pub(crate) fn hears_the_end(&mut self) -> String {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Ok(_) => {}
            // What was sent and never read makes the system close harder.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error}; so far: {}", bytes.escape_ascii()),
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A command as client libraries send it.
pub(crate) fn array<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Integers as they are answered.
pub(crate) fn five(numbers: [i64; 5]) -> String {
    let lines: String = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*5\r\n{lines}")
}

/// Far above what any answer takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
