//! One connection: read what is there, answer all of it, send it in one go.
//!
//! A client that pipelines gets its answers in order and in as few packets as it sent. The buffers grow with what is
//! sent and have an end: no more than one frame's worth is read ahead, and answers are sent before more than that has
//! piled up. A client that does not read its answers is not read from.
//!
//! Silence has bounds too. Whoever connects must say something soon, whoever begins a command must end it, whoever is
//! sent answers must take them; between commands a connection may rest for longer.

use std::{io, pin::Pin, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, Sleep, sleep, timeout},
};

use super::{
    commands,
    frame::{self, Command, MAX_FRAME_BYTES, Malformed, Words},
    reply::Replies,
    session::Session,
    settings::RespSettings,
};

/// How a connection came to its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// The client left, or said `QUIT`.
    Left,
    /// It broke the protocol.
    Malformed(Malformed),
    /// It was silent for too long.
    Silent,
    /// The server is going down.
    Shutdown,
}

/// Bytes on their way in.
struct Incoming {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// Serves a client to its end. `ending` is waited for between commands.
pub(crate) async fn serve<S, F>(
    mut stream: S,
    mut session: Session,
    settings: &RespSettings,
    ending: F,
) -> io::Result<End>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = ()>,
{
    let mut incoming = Incoming::new();
    let (mut words, mut replies) = (Words::default(), Replies::default());
    let mut patience = Patience::new(settings);
    let mut ending = std::pin::pin!(ending);
    loop {
        let read = tokio::select! {
            biased;
            read = stream.read(incoming.room()) => read?,
            () = patience.runs_out() => return Ok(End::Silent),
            () = &mut ending => return Ok(End::Shutdown),
        };
        if read == 0 {
            return Ok(End::Left);
        }
        incoming.arrived(read);
        let broken = loop {
            let frame = incoming.unread();
            match frame::read(frame, &mut words) {
                Ok(Some(taken)) => {
                    if words.count() > 0 {
                        commands::answer(&mut session, Command::new(frame, &words), &mut replies).await;
                    }
                    incoming.take(taken);
                    if session.is_over {
                        break None;
                    }
                    if replies.bytes().len() >= MAX_OUTPUT_BYTES {
                        send(&mut stream, &mut replies, settings.write_timeout).await?;
                    }
                }
                Ok(None) => break None,
                Err(malformed) => {
                    replies.error(&format!("ERR Protocol error: {malformed}"));
                    break Some(malformed);
                }
            }
        };
        if !replies.bytes().is_empty() {
            send(&mut stream, &mut replies, settings.write_timeout).await?;
        }
        if let Some(malformed) = broken {
            return Ok(End::Malformed(malformed));
        }
        if session.is_over {
            return Ok(End::Left);
        }
        patience.renew(incoming.is_empty());
    }
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, replies: &mut Replies, within: Duration) -> io::Result<()> {
    // Almost always the kernel takes it at once, and no timer is needed.
    let sent = timeout(within, stream.write_all(replies.bytes())).await;
    sent.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answers")))?;
    replies.clear();
    Ok(())
}

impl Incoming {
    fn new() -> Self {
        Self { buffer: vec![0; FIRST_BYTES], start: 0, end: 0 }
    }

    /// Where the next bytes go. What is left of an unfinished frame moves to the front first; if it fills the buffer,
    /// the buffer grows. A frame has an end, and so has this.
    fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() && self.end < MAX_FRAME_BYTES {
            self.buffer.resize((2 * self.end).min(MAX_FRAME_BYTES), 0);
        }
        &mut self.buffer[self.end..]
    }

    fn arrived(&mut self, count: usize) {
        self.end += count;
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn take(&mut self, count: usize) {
        self.start += count;
        if self.start == self.end {
            // A client that sends more at once than fits gets more room; one that has stopped doing so gives it back.
            if self.end == self.buffer.len() && self.end < MAX_FRAME_BYTES {
                self.buffer.resize(2 * self.end, 0);
            } else if self.buffer.len() > FIRST_BYTES && self.end <= FIRST_BYTES / 4 {
                self.buffer.truncate(FIRST_BYTES);
                self.buffer.shrink_to_fit();
            }
            (self.start, self.end) = (0, 0);
        }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// How long a client may be silent from here on.
///
/// A timer that is set anew with every command would cost as much as the command. So there is one that is let run; when
/// it ends and something has come meanwhile, it starts again. Silence is noticed after one to two times its bound.
struct Patience<'a> {
    settings: &'a RespSettings,
    timer: Pin<Box<Sleep>>,
    heard: bool,
    /// When a command that was begun must have ended.
    frame_by: Option<Instant>,
}

impl<'a> Patience<'a> {
    fn new(settings: &'a RespSettings) -> Self {
        Self { settings, timer: Box::pin(sleep(settings.first_byte_timeout)), heard: false, frame_by: None }
    }

    async fn runs_out(&mut self) {
        loop {
            self.timer.as_mut().await;
            if !self.heard {
                return;
            }
            self.heard = false;
            self.timer.as_mut().reset(Instant::now() + self.settings.idle_timeout);
        }
    }

    /// Something has come. It may have been the end of a frame, or the beginning of one that is not all there.
    #[inline]
    fn renew(&mut self, between_commands: bool) {
        if !between_commands {
            let by = *self.frame_by.get_or_insert_with(|| Instant::now() + self.settings.frame_timeout);
            self.heard = false;
            self.timer.as_mut().reset(by);
        } else if self.frame_by.take().is_some() {
            self.timer.as_mut().reset(Instant::now() + self.settings.idle_timeout);
            self.heard = false;
        } else {
            self.heard = true;
        }
    }
}

/// What a connection starts with: some seventy throttle commands fit.
const FIRST_BYTES: usize = 4 * 1024;
/// Answers are sent when they come to this much, whatever else has been asked.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
