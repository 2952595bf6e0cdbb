//! A real browser: Chromium, driven by its own driver over WebDriver, without a window.
//!
//! What is clicked has to be there and in sight, as it has for a person. Waiting is the test's: a page changes when it
//! likes.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Part, Process, require, wait_until};

/// A Chromium with nothing in it but this test. Closed when dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Process,
    port: u16,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// An empty window.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// An empty window of a browser with these flags besides its usual ones.
    #[track_caller]
    pub fn start_with(flags: &[&str]) -> Self {
        let port = Process::free_port();
        let driver = Process::new(require(Part::ChromeDriver), [format!("--port={port}")]);
        driver.start();
        wait_until("chromedriver is ready", PATIENCE, || {
            assert!(driver.is_running(), "chromedriver ended at once: {}", driver.log());
            send(port, "GET", "/status", None).is_ok_and(|reply| reply["value"]["ready"] == true)
        });
        let profile = tempfile::Builder::new().prefix("tollgate-").tempdir().expect("a temporary directory");
        let mut words: Vec<String> = FLAGS.iter().chain(flags).map(|flag| (*flag).to_owned()).collect();
        words.push(format!("--user-data-dir={}", profile.path().display()));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "binary": require(Part::Chromium), "args": words },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let told = send(port, "POST", "/session", Some(&wanted)).expect("chromedriver answers");
        let session = told["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no window: {told}")).to_owned();
        Self { driver, port, session, _profile: profile }
    }

    /// Opens a page.
    #[track_caller]
    pub fn open(&self, address: &str) {
        self.ask("/url", &json!({ "url": address }));
    }

    /// The text of the first element that fits, as a person sees it; nothing if there is none.
    #[track_caller]
    pub fn text(&self, selector: &str) -> Option<String> {
        let script = "return document.querySelector(arguments[0])?.innerText ?? null";
        self.script(script, &[selector]).as_str().map(str::to_owned)
    }

    /// Clicks on the first element that fits.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.ask(&format!("/element/{element}/click"), &json!({}));
    }

    /// Types into the first element that fits.
    #[track_caller]
    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.ask(&format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// What a script in the page returns.
    #[track_caller]
    pub fn script(&self, script: &str, arguments: &[&str]) -> Value {
        self.ask("/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// What the browser has complained about, since the last time it was asked.
    #[track_caller]
    pub fn complaints(&self) -> Vec<String> {
        let told = self.ask("/se/log", &json!({ "type": "browser" }));
        let severe = told.as_array().into_iter().flatten().filter(|one| one["level"] == "SEVERE");
        severe.map(|one| one["message"].to_string()).collect()
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let told = self.ask("/element", &json!({ "using": "css selector", "value": selector }));
        let name = told.as_object().and_then(|named| named.values().next()).and_then(Value::as_str);
        name.unwrap_or_else(|| panic!("no element fits {selector}: {told}")).to_owned()
    }

    #[track_caller]
    fn ask(&self, what: &str, body: &Value) -> Value {
        let path = format!("/session/{}{what}", self.session);
        let told = send(self.port, "POST", &path, Some(body)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let value = told["value"].clone();
        assert!(value["error"].is_null(), "{what} {body}: {value}");
        value
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver closes the browser with its session. If it is killed instead, the pipe between them ends, and with
        // it the browser.
        let _ = send(self.port, "DELETE", &format!("/session/{}", self.session), None);
        self.driver.kill();
    }
}

/// One exchange with the driver.
fn send(port: u16, method: &str, path: &str, body: Option<&Value>) -> io::Result<Value> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    // The driver says that it closes the connection, and does not.
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut json = vec![0; length];
    reader.read_exact(&mut json)?;
    serde_json::from_slice(&json).map_err(io::Error::other)
}

/// As root, without a display, and without a word to anybody but the test's own server. The browser hangs on a pipe of the
/// driver, so that it cannot outlive it.
const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--remote-debugging-pipe",
    "--window-size=1280,1600",
];

/// A browser takes a second to start, and several on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
