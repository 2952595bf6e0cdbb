//! A raw HTTP client that sends exactly the given bytes.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Asserts a problem response (RFC 9457) whose detail contains `words`.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, words: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    }
}

/// Sends one request on a new connection.
pub(crate) fn ask(server: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    let mut bytes = request.into_bytes();
    bytes.extend_from_slice(body);
    raw(server, &bytes).unwrap_or_else(|| panic!("{method} {path}: the connection was closed without an answer"))
}

pub(crate) fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Sends exactly these bytes; `None` if the connection is closed without a response.
pub(crate) fn raw(server: SocketAddr, bytes: &[u8]) -> Option<Reply> {
    let mut stream = connect(server);
    // The server may close before everything is sent.
    let _ = stream.write_all(bytes);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    parse(&reply)
}

/// Sends one request on an open connection, and reads its response.
pub(crate) fn ask_on(stream: &mut TcpStream, body: &str) -> io::Result<Reply> {
    let request = format!("POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes())?;
    read_reply(stream)
}

/// Reads the next response on an open connection. The request must not be `HEAD`.
pub(crate) fn read_reply(stream: &mut TcpStream) -> io::Result<Reply> {
    let mut reply = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        reply.extend_from_slice(&piece[..read]);
        if let Some(found) = parse(&reply)
            && found.header("content-length").and_then(|length| length.parse().ok()) == Some(found.body.len())
        {
            return Ok(found);
        }
    }
}

fn parse(bytes: &[u8]) -> Option<Reply> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    Some(Reply { status, headers, body: body.to_owned() })
}

/// Read timeout, far above what a response takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
