//! Load over HTTP/1.1: requests are encoded beforehand, one in flight per connection.

use std::{net::Ipv4Addr, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    Load,
    closed_loop::{Caller, KEYS, RunResult, closed_loop},
};

/// Requests as bytes.
pub(crate) type HttpRequests = Arc<[Vec<u8>]>;

pub(crate) fn ratekeeper() -> HttpRequests {
    (0..KEYS).map(|key| post("/v1/check", &format!(r#"{{"domain":"bench","key":"user:{key:07}"}}"#))).collect()
}

pub(crate) fn throttlecrab() -> HttpRequests {
    let body = |key| {
        format!(r#"{{"key":"user:{key:07}","max_burst":1000000,"count_per_period":1000000,"period":1,"quantity":1}}"#)
    };
    (0..KEYS).map(|key| post("/throttle", &body(key))).collect()
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A connection, one request at a time.
struct HttpCaller {
    stream: TcpStream,
    requests: HttpRequests,
    buffer: Vec<u8>,
}

pub(crate) async fn run(port: u16, requests: &HttpRequests, load: Load) -> RunResult {
    let mut callers = Vec::new();
    for _ in 0..load.connections {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        callers.push(HttpCaller { stream, requests: Arc::clone(requests), buffer: vec![0; 16 << 10] });
    }
    closed_loop(callers, load.time).await
}

impl Caller for HttpCaller {
    async fn ask(&mut self, key: usize) {
        self.stream.write_all(&self.requests[key]).await.expect("an open connection");
        read(&mut self.stream, &mut self.buffer).await;
    }
}

/// Reads one response, which must be 200 with a content length.
async fn read(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut filled = 0;
    loop {
        let count = stream.read(&mut buffer[filled..]).await.expect("a response");
        assert!(count > 0, "the server closed the connection");
        filled += count;
        let Some(head) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&buffer[..head]).expect("a head in ASCII");
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        if filled >= head + 4 + length.expect("a length") {
            return;
        }
    }
}
