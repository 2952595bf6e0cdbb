//! As much of HTTP as it takes to ask a tollgate server something: one request, one answer, no redirects.

use std::{
    fmt,
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

use tollgate_server::security::Secret;

/// Where a server is: `http://host:port`.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    host: String,
    port: u16,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let example = "use an address such as http://127.0.0.1:8080";
        if word.starts_with("https://") {
            return Err("this command does not speak TLS; ask with curl, or on the machine itself".to_owned());
        }
        let rest = word.strip_prefix("http://").unwrap_or(word).trim_end_matches('/');
        let (host, port) = rest.rsplit_once(':').ok_or(example)?;
        let port = port.parse().map_err(|_| example.to_owned())?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() || host.contains(['/', '@', ' ', '\r', '\n']) {
            return Err(example.to_owned());
        }
        Ok(Self { host, port })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Place {
    /// Asks: a `GET`, or a `POST` of JSON.
    pub(crate) fn ask(&self, path: &str, body: Option<&[u8]>, token: Option<&Secret>) -> io::Result<Answer> {
        let mut stream = self.connect()?;
        let method = if body.is_some() { "POST" } else { "GET" };
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {self}\r\nconnection: close\r\n");
        if let Some(token) = token {
            request.push_str(&format!("authorization: Bearer {}\r\n", token.expose()));
        }
        if let Some(body) = body {
            request.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes())?;
        stream.write_all(body.unwrap_or_default())?;
        let mut reply = Vec::new();
        stream.take(MAX_REPLY).read_to_end(&mut reply)?;
        parse(&reply).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name stands for no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// A tollgate server says beforehand how long its answers are, so what follows the head is the body.
fn parse(reply: &[u8]) -> Option<Answer> {
    let end = reply.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&reply[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some(Answer { status, body: reply[end + 4..].to_vec() })
}

const PATIENCE: Duration = Duration::from_secs(5);
/// More than a server's state at its largest.
const MAX_REPLY: u64 = 16 << 20;
