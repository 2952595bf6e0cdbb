//! Headless Chromium, driven over WebDriver.
//!
//! An element has to exist and be visible when it is clicked. Nothing here waits for a change of the page: the test does.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Part, Process, require, wait_until};

/// A Chromium with an empty profile. Closed when dropped.
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

    /// An empty window of a browser with additional flags.
    #[track_caller]
    pub fn start_with(flags: &[&str]) -> Self {
        let port = Process::free_port();
        let driver = Process::new(require(Part::ChromeDriver), [format!("--port={port}")]);
        driver.start();
        wait_until("chromedriver is ready", TIMEOUT, || {
            assert!(driver.is_running(), "chromedriver ended at once: {}", driver.log());
            send(port, "GET", "/status", None).is_ok_and(|reply| reply["value"]["ready"] == true)
        });
        let profile = tempfile::Builder::new().prefix("ratekeeper-").tempdir().expect("a temporary directory");
        let mut arguments: Vec<String> = FLAGS.iter().chain(flags).map(|flag| (*flag).to_owned()).collect();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "binary": require(Part::Chromium), "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let reply = send(port, "POST", "/session", Some(&capabilities)).expect("chromedriver answers");
        let session = reply["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {reply}")).to_owned();
        Self { driver, port, session, _profile: profile }
    }

    /// Opens a page.
    #[track_caller]
    pub fn open(&self, address: &str) {
        self.ask("/url", &json!({ "url": address }));
    }

    /// The visible text of the first matching element; `None` if there is none.
    #[track_caller]
    pub fn text(&self, selector: &str) -> Option<String> {
        let script = "return document.querySelector(arguments[0])?.innerText ?? null";
        self.script(script, &[selector]).as_str().map(str::to_owned)
    }

    /// Clicks on the first matching element.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.ask(&format!("/element/{element}/click"), &json!({}));
    }

    /// Types into the first matching element.
    #[track_caller]
    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.ask(&format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// The result of a script that runs in the page.
    #[track_caller]
    pub fn script(&self, script: &str, arguments: &[&str]) -> Value {
        self.ask("/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// The visible part of the page, as PNG.
    #[track_caller]
    pub fn screenshot(&self) -> Vec<u8> {
        let path = format!("/session/{}/screenshot", self.session);
        let reply = send(self.port, "GET", &path, None).unwrap_or_else(|error| panic!("screenshot: {error}"));
        let text = reply["value"].as_str().unwrap_or_else(|| panic!("no screenshot: {reply}"));
        base64(text).unwrap_or_else(|| panic!("the screenshot is not base64"))
    }

    /// Errors in the browser's console since the last call.
    #[track_caller]
    pub fn console_errors(&self) -> Vec<String> {
        let reply = self.ask("/se/log", &json!({ "type": "browser" }));
        let severe = reply.as_array().into_iter().flatten().filter(|one| one["level"] == "SEVERE");
        severe.map(|one| one["message"].to_string()).collect()
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let reply = self.ask("/element", &json!({ "using": "css selector", "value": selector }));
        let name = reply.as_object().and_then(|named| named.values().next()).and_then(Value::as_str);
        name.unwrap_or_else(|| panic!("no element matches {selector}: {reply}")).to_owned()
    }

    #[track_caller]
    fn ask(&self, what: &str, body: &Value) -> Value {
        let path = format!("/session/{}{what}", self.session);
        let reply = send(self.port, "POST", &path, Some(body)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let value = reply["value"].clone();
        assert!(value["error"].is_null(), "{what} {body}: {value}");
        value
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver closes the browser with its session. If the driver is killed, the browser ends with the pipe between
        // them.
        let _ = send(self.port, "DELETE", &format!("/session/{}", self.session), None);
        self.driver.kill();
    }
}

/// Decodes base64 as WebDriver sends it: the standard alphabet, with padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').bytes().map(|byte| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let digits: Vec<u32> = digits.collect::<Option<_>>()?;
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let bits = group.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - group.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

/// Sends a request to the driver and returns its response.
fn send(port: u16, method: &str, path: &str, body: Option<&Value>) -> io::Result<Value> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    // The driver sends `connection: close`, but does not close the connection.
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

/// For root, without a display, and with no traffic except to the test's server. The browser is connected to the driver
/// by a pipe, so that it ends with the driver.
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
const TIMEOUT: Duration = Duration::from_secs(60);
