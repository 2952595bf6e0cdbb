//! Minimal RESP 2 client for the commands of tests.
//!
//! Independent of the store's client, so that an error of one is not hidden by the same error in the other. It connects
//! through the server's Unix socket: without TLS, and certainly to the server that was started, since the socket is in its
//! directory.

use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// A reply of a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// `+OK`, for example.
    Status(String),
    /// `-ERR …`.
    Error(String),
    /// `:1`.
    Integer(i64),
    /// A string of bytes.
    Bulk(Vec<u8>),
    /// A null bulk string or array.
    Null,
    /// A list of replies.
    Array(Vec<Reply>),
}

impl Reply {
    /// The same reply, unless it is an error.
    #[track_caller]
    #[must_use]
    pub fn expect_ok(self) -> Self {
        match self {
            Self::Error(message) => panic!("the server refused: {message}"),
            reply => reply,
        }
    }

    /// The text of a status, an error or a bulk string.
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Self::Status(text) | Self::Error(text) => text.clone(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("expected text, found {other:?}"),
        }
    }

    /// The bytes of a bulk string.
    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Bulk(bytes) => bytes,
            other => panic!("expected bytes, found {other:?}"),
        }
    }

    /// The number, also when it is written as a bulk string.
    #[track_caller]
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            other => other.text().parse().unwrap_or_else(|_| panic!("expected a number, found {other:?}")),
        }
    }

    /// The replies of an array.
    #[track_caller]
    pub fn items(&self) -> &[Reply] {
        match self {
            Self::Array(items) => items,
            other => panic!("expected an array, found {other:?}"),
        }
    }

    /// The reply is an error that starts with this word, such as `MOVED`.
    pub fn is_error(&self, word: &str) -> bool {
        matches!(self, Self::Error(message) if message.starts_with(word))
    }
}

/// A connection, for commands that depend on the previous one (`MULTI`, `ASKING`, `SUBSCRIBE`).
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    /// Connects; `within` is the timeout of every read and write.
    pub(super) fn open(socket: &Path, within: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(within))?;
        stream.set_write_timeout(Some(within))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a command and reads the reply. After an error the connection is unusable.
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            write!(request, "${}\r\n", word.len())?;
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)?;
        read_reply(&mut self.stream)
    }
}

fn read_reply(from: &mut impl BufRead) -> io::Result<Reply> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let Some(line) = line.strip_suffix("\r\n") else {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
    };
    let (kind, rest) = line.split_at_checked(1).ok_or_else(|| unexpected(line))?;
    let number = || rest.parse::<i64>().map_err(|_| unexpected(line));
    Ok(match kind {
        "+" => Reply::Status(rest.into()),
        "-" => Reply::Error(rest.into()),
        ":" => Reply::Integer(number()?),
        "$" | "*" if number()? < 0 => Reply::Null,
        "$" => {
            let length = usize::try_from(number()?).map_err(|_| unexpected(line))?;
            let mut bytes = vec![0; length + "\r\n".len()];
            from.read_exact(&mut bytes)?;
            bytes.truncate(length);
            Reply::Bulk(bytes)
        }
        "*" => Reply::Array((0..number()?).map(|_| read_reply(from)).collect::<io::Result<_>>()?),
        _ => return Err(unexpected(line)),
    })
}

fn unexpected(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no reply starts with {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_reply_is_read_to_its_end_and_no_further() {
        let mut bytes = "*3\r\n$4\r\na\r\nb\r\n*2\r\n:-7\r\n$-1\r\n-ERR no\r\n+next\r\n".as_bytes();
        let inner = Reply::Array(vec![Reply::Integer(-7), Reply::Null]);
        let outer = Reply::Array(vec![Reply::Bulk(b"a\r\nb".into()), inner, Reply::Error("ERR no".into())]);
        assert_eq!(read_reply(&mut bytes).unwrap(), outer);
        assert_eq!(read_reply(&mut bytes).unwrap(), Reply::Status("next".into()));
        assert_eq!(read_reply(&mut bytes).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
