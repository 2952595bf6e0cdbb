//! Corked stream: commands that are ready at the same time leave in one write.
//!
//! The first command wakes the driver of a connection, and a runtime often runs the task that was woken last before all
//! others. The driver would then write one command at a time. So the first flush of new bytes yields: tasks that are
//! ready run, and their commands join the buffer. If there are none, the driver runs again at once; no timer is involved.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that buffers what is written until it is flushed for the second time.
#[derive(Debug)]
pub(super) struct Corked<S> {
    stream: S,
    buffer: Vec<u8>,
    /// How much of the buffer has been written.
    written: usize,
    has_yielded: bool,
}

impl<S> Corked<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new(), written: 0, has_yielded: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Corked<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Corked<S> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.buffer.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.buffer.is_empty() && !this.has_yielded {
            this.has_yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        while this.written < this.buffer.len() {
            let written = ready!(Pin::new(&mut this.stream).poll_write(cx, &this.buffer[this.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            this.written += written;
        }
        this.buffer.clear();
        (this.written, this.has_yielded) = (0, false);
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Records each write.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl AsyncWrite for Writes {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.0.push(bytes.to_vec());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Commands that are written between the first flush and the second leave with the first command.
    #[test]
    fn commands_that_are_ready_leave_in_one_write() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut corked = Corked::new(Writes::default());
        for round in 1..=2 {
            assert!(Pin::new(&mut corked).poll_write(&mut cx, b"one").is_ready());
            assert!(Pin::new(&mut corked).poll_flush(&mut cx).is_pending(), "other tasks run");
            assert!(Pin::new(&mut corked).poll_write(&mut cx, b"two").is_ready());
            assert!(Pin::new(&mut corked).poll_flush(&mut cx).is_ready());
            assert!(Pin::new(&mut corked).poll_flush(&mut cx).is_ready(), "nothing to write");
            assert_eq!(corked.stream.0, vec![b"onetwo".to_vec(); round]);
        }
    }
}
