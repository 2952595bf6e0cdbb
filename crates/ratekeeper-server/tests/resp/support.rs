//! Test server of the RESP wire on a free port with a manual clock, and a client that compares bytes.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use ratekeeper_core::Timestamp;
use ratekeeper_memory::{ManualClock, MemoryStore};
use ratekeeper_redis::{RedisConfig, RedisStore};
use ratekeeper_rules::{Format, read_str};
use ratekeeper_server::{
    config::Bounds,
    engine::Engine,
    listen::Listener,
    resp::Resp,
    security::{Access, Tokens},
    shutdown::{self, Stopper},
    telemetry::{Telemetry, Wire},
    wiring::{AnyStore, StorageSettings, open_store},
};
use tokio::runtime::Runtime;

/// An instant in 2030.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_900_000_000_000_000);

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

    /// A server that requires a token of this file.
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

    /// A server on Redis, by the clock of Redis.
    pub(crate) fn on_redis(url: &str) -> Self {
        let runtime = runtime();
        let settings = StorageSettings { deadline: TIMEOUT, ..StorageSettings::default() };
        let store = runtime.block_on(open_store(url, &settings)).unwrap();
        let engine = Engine::new(store, Arc::default());
        Self::over(ManualClock::default(), engine, runtime, Bounds::default(), Access::open())
    }

    /// A server on Redis by a manual clock that starts at [`START`]. It has one worker thread, so that the calls of one
    /// pipeline are sent in one write.
    pub(crate) fn on_redis_with_manual_clock(url: &str, rules: &[&str]) -> (Self, ManualClock) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let clock = ManualClock::default();
        clock.set(START);
        let config = RedisConfig::default().manual_clock(clock.clone()).deadline(TIMEOUT);
        let store = runtime.block_on(RedisStore::connect_with(url, config)).unwrap();
        let engine = Engine::new(AnyStore::Redis(store), Arc::default());
        load(&engine, rules);
        (Self::over(ManualClock::default(), engine, runtime, Bounds::default(), Access::open()), clock)
    }

    fn over(clock: ManualClock, engine: Engine, runtime: Runtime, bounds: Bounds, access: Access) -> Self {
        let (stopper, shutdown) = shutdown::channel();
        let telemetry = Arc::new(Telemetry::default());
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = runtime.block_on(Listener::bind(Wire::Resp, loopback, None, bounds, telemetry)).unwrap();
        let address = listener.address().unwrap();
        runtime.spawn(Resp::new(engine.clone(), access).serve(listener, shutdown));
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
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
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

/// An engine with [`RULES`] on the embedded store, by a manual clock.
pub(crate) fn engine() -> (ManualClock, Engine) {
    let clock = ManualClock::at(START);
    let engine = Engine::new(AnyStore::Manual(MemoryStore::with_clock(clock.clone())), Arc::default());
    load(&engine, &[RULES]);
    (clock, engine)
}

pub(crate) fn load(engine: &Engine, rules: &[&str]) {
    let files: Result<Vec<_>, _> = rules.iter().map(|text| read_str("rules.yaml", text, Format::Yaml)).collect();
    engine.load(files).unwrap();
}

/// A raw TCP client.
pub(crate) struct Client(TcpStream);

impl Client {
    /// The same connection, for a second thread.
    pub(crate) fn try_clone_end(&self) -> Self {
        Self(self.0.try_clone().unwrap())
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends bytes and ignores errors, since the server may close the connection meanwhile.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.0.write_all(bytes.as_ref());
    }

    /// Whether the bytes can be written within half a second.
    pub(crate) fn can_send(&mut self, bytes: &[u8]) -> bool {
        self.0.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        self.0.write_all(bytes).is_ok()
    }

    /// Expects these bytes next.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let mut bytes = vec![0; expected.len()];
        if let Err(error) = self.0.read_exact(&mut bytes) {
            panic!("{error} while {} was expected; so far: {}", expected.escape_ascii(), bytes.escape_ascii());
        }
        assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    /// Expects an error line that contains `part`.
    #[track_caller]
    pub(crate) fn expect_error(&mut self, part: &str) {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        assert!(line.starts_with('-') && line.contains(part), "{line:?} does not contain {part:?}");
    }

    /// Reads an array of integers.
    #[track_caller]
    pub(crate) fn read_integers(&mut self) -> Vec<i64> {
        let count = self.read_number('*');
        (0..count).map(|_| self.read_number(':')).collect()
    }

    fn read_number(&mut self, kind: char) -> i64 {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        let number = line.trim_end().strip_prefix(kind).and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("{line:?} is not {kind} and a number"))
    }

    /// Reads one reply of RESP 2 and appends its strings and numbers, however they are nested.
    #[track_caller]
    pub(crate) fn read_value(&mut self, words: &mut Vec<String>) {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "*" => (0..rest.parse::<usize>().unwrap()).for_each(|_| self.read_value(words)),
            "$" if rest == "-1" => words.push("null".to_owned()),
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                words.push(String::from_utf8(bytes[..bytes.len() - 2].to_vec()).unwrap());
            }
            ":" | "+" => words.push(rest.to_owned()),
            _ => panic!("{line:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn exchange(&mut self, words: &[&str], expected: impl AsRef<[u8]>) {
        self.send(array(words));
        self.expect(expected);
    }

    /// Reads until the server closes the connection.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) -> String {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Ok(_) => {}
            // Data that the server has not read makes the kernel send RST.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error}; so far: {}", bytes.escape_ascii()),
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A command as an array of bulk strings.
pub(crate) fn array<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// An array of five integers, encoded.
pub(crate) fn five(numbers: [i64; 5]) -> String {
    let lines: String = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*5\r\n{lines}")
}

/// Timeout far above the duration of any reply on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
