//! An HTTP/2 client that sends exactly the given frames, and grants no window by itself.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const ACK: u8 = 1;
/// RFC 9113, section 7.
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

pub(crate) struct Frames {
    pub(crate) stream: TcpStream,
    received: Vec<u8>,
}

/// A received frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) payload: Vec<u8>,
}

impl Frames {
    /// With the initial window of each stream.
    pub(crate) fn connect(server: SocketAddr, window: u32) -> io::Result<Self> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let settings = [&[0, 4][..], &window.to_be_bytes()].concat();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
        stream.write_all(&frame(SETTINGS, 0, 0, &settings))?;
        Ok(Self { stream, received: Vec::new() })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next frame. SETTINGS and PING are acknowledged.
    pub(crate) fn next(&mut self) -> io::Result<Frame> {
        loop {
            if let Some((head, rest)) = self.received.split_first_chunk::<9>() {
                let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
                if rest.len() >= length {
                    let found = Frame { kind: head[3], flags: head[4], payload: rest[..length].to_vec() };
                    self.received.drain(..9 + length);
                    if matches!(found.kind, SETTINGS | PING) && found.flags & ACK == 0 {
                        let payload = if found.kind == PING { &found.payload[..] } else { &[] };
                        self.send(&frame(found.kind, ACK, 0, payload))?;
                    }
                    return Ok(found);
                }
            }
            let mut piece = [0; 16_384];
            match self.stream.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// The error code of the GOAWAY that ends the connection; `None` if it ends without one. Panics if the connection
    /// stays open: its PINGs would keep the loop going.
    pub(crate) fn goaway_code(&mut self) -> Option<u32> {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < GOAWAY_BOUND, "the connection is still open after {GOAWAY_BOUND:?}");
            match self.next() {
                Ok(Frame { kind: GOAWAY, payload, .. }) => {
                    return Some(u32::from_be_bytes([payload[4], payload[5], payload[6], payload[7]]));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("the connection stays open"),
                Err(_) => return None,
            }
        }
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// A request as bytes: HPACK without tables or Huffman codes.
pub(crate) fn request(stream: u32, method: &str, path: &str, fields: &[(&str, &str)], body: Option<&[u8]>) -> Vec<u8> {
    let mut block = Vec::new();
    let pseudo = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)];
    for (name, value) in pseudo.iter().chain(fields) {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).ok().filter(|length| *length < 127).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    match body {
        None => frame(HEADERS, END_HEADERS | END_STREAM, stream, &block),
        Some(body) => [frame(HEADERS, END_HEADERS, stream, &block), frame(DATA, END_STREAM, stream, body)].concat(),
    }
}

/// Far above the stall time and the time of a flood on a busy machine.
const GOAWAY_BOUND: Duration = Duration::from_secs(60);
