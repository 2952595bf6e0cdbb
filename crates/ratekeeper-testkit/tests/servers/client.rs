//! A client as plain as can be: it writes inline commands to a TCP socket and reads lines.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    time::Duration,
};

pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) fn connect(port: u16) -> Self {
        Self::try_connect(port).unwrap()
    }

    pub(crate) fn try_connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self(stream))
    }

    pub(crate) fn send(&mut self, command: &str) {
        self.0.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    }

    /// Reads exactly as many bytes as are expected.
    #[track_caller]
    pub(crate) fn expect(&mut self, reply: &str) {
        let mut bytes = vec![0; reply.len()];
        self.0.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), reply);
    }

    /// Asks and expects.
    #[track_caller]
    pub(crate) fn ask(&mut self, command: &str, reply: &str) {
        self.send(command);
        self.expect(reply);
    }

    /// Nothing comes for a while, and the connection is open.
    #[track_caller]
    pub(crate) fn expect_silence(&mut self) {
        self.0.set_read_timeout(Some(A_WHILE)).unwrap();
        let error = self.0.read(&mut [0; 64]).expect_err("bytes, or the end of the connection");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        self.0.set_read_timeout(Some(TIMEOUT)).unwrap();
    }

    /// The connection has ended, one way or the other.
    #[track_caller]
    pub(crate) fn expect_gone(&mut self) {
        match self.0.read(&mut [0; 64]) {
            Ok(length) => assert_eq!(length, 0, "bytes instead of the end"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }

    /// The connection has ended, politely.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        assert_eq!(self.0.read(&mut [0; 64]).unwrap(), 0);
    }

    /// The connection has ended the hard way.
    #[track_caller]
    pub(crate) fn expect_reset(&mut self) {
        let error = self.0.read(&mut [0; 64]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}

/// Only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Hundreds of times what an answer takes, so that one which ought not to come would be noticed.
const A_WHILE: Duration = Duration::from_millis(50);
