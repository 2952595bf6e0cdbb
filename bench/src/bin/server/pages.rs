//! Load over HTTP/1.1: requests made beforehand, one in flight on each connection.

use std::{net::Ipv4Addr, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    Load,
    seen::{Caller, KEYS, Seen, closed_loop},
};

/// Requests as bytes.
pub(crate) type Pages = Arc<[Vec<u8>]>;

pub(crate) fn ours() -> Pages {
    (0..KEYS).map(|key| post("/v1/check", &format!(r#"{{"domain":"bench","key":"user:{key:07}"}}"#))).collect()
}

pub(crate) fn crab() -> Pages {
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
struct Reader {
    stream: TcpStream,
    pages: Pages,
    buffer: Vec<u8>,
}

pub(crate) async fn run(port: u16, pages: &Pages, load: Load) -> Seen {
    let mut callers = Vec::new();
    for _ in 0..load.connections {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        callers.push(Reader { stream, pages: Arc::clone(pages), buffer: vec![0; 16 << 10] });
    }
    closed_loop(callers, load.time).await
}

impl Caller for Reader {
    async fn ask(&mut self, key: usize) {
        self.stream.write_all(&self.pages[key]).await.expect("a connection that lives");
        read(&mut self.stream, &mut self.buffer).await;
    }
}

/// One whole answer, which must be a 200 with its length said.
async fn read(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut filled = 0;
    loop {
        let count = stream.read(&mut buffer[filled..]).await.expect("an answer");
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
