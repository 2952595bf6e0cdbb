//! Minimal HTTP/1.1 client: one request per connection.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

/// A response.
#[derive(Clone, Debug)]
pub struct HttpReply {
    /// The status code.
    pub status: u16,
    /// Names in lower case, values as they are.
    pub headers: Vec<(String, String)>,
    /// The body, as text.
    pub body: String,
}

impl HttpReply {
    /// The first field of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// Sends a GET request to a server on loopback.
pub fn http_get(port: u16, path: &str, headers: &[(&str, &str)]) -> io::Result<HttpReply> {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    http_get_bytes(port, path, &headers)
}

/// The same with header values of any bytes.
pub fn http_get_bytes(port: u16, path: &str, headers: &[(&str, &[u8])]) -> io::Result<HttpReply> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut request = format!("GET {path} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request.push_str("host: test\r\n");
    }
    let mut request = request.into_bytes();
    for (name, value) in headers {
        request.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    parse(&String::from_utf8_lossy(&bytes)).ok_or_else(|| io::Error::other("the response is not HTTP"))
}

fn parse(text: &str) -> Option<HttpReply> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let mut reply = HttpReply { status, headers, body: body.to_owned() };
    if reply.header("transfer-encoding") == Some("chunked") {
        reply.body = dechunk(body)?;
    }
    Some(reply)
}

/// Decodes a chunked body.
fn dechunk(mut chunks: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (length, rest) = chunks.split_once("\r\n")?;
        let length = usize::from_str_radix(length.trim(), 16).ok()?;
        if length == 0 {
            return Some(whole);
        }
        whole.push_str(rest.get(..length)?);
        chunks = rest.get(length..)?.strip_prefix("\r\n")?;
    }
}

/// Far above the time of any response on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
