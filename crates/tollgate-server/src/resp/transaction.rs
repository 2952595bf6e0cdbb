//! `MULTI` … `EXEC`: commands that are kept until the client says to carry them out.
//!
//! Client libraries wrap pipelines in these unless told not to, so they are understood here. The commands are carried out
//! in order, and their answers come together. There is nothing to roll back and nobody is locked out meanwhile: other
//! clients may be answered in between, which changes no decision's meaning.

use super::{
    commands::{self, Refused},
    frame::{self, Command, Words},
    reply::Replies,
};

/// What was said since `MULTI`.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// The commands as arrays, one after another.
    frames: Vec<u8>,
    count: usize,
    /// A command could not be kept, so none will be carried out.
    is_broken: bool,
}

/// What a command means to a client that has said `MULTI`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Keep,
    Execute,
    Discard,
    /// Ends the transaction and is carried out at once.
    Leave,
}

impl Step {
    pub(crate) fn of(command: Command<'_>) -> Self {
        let is = |known: &str| command.name().eq_ignore_ascii_case(known.as_bytes());
        match () {
            () if is("EXEC") => Self::Execute,
            () if is("DISCARD") => Self::Discard,
            () if is("QUIT") || is("RESET") => Self::Leave,
            () => Self::Keep,
        }
    }
}

impl Transaction {
    /// Keeps a command, or says why not; then the whole is worth nothing.
    pub(crate) fn keep(&mut self, command: Command<'_>, replies: &mut Replies) {
        match self.try_keep(command) {
            Ok(()) => replies.status("QUEUED"),
            Err(Refused(line)) => {
                self.is_broken = true;
                replies.error(&line);
            }
        }
    }

    fn try_keep(&mut self, command: Command<'_>) -> Result<(), Refused> {
        if command.name().eq_ignore_ascii_case(b"MULTI") {
            return Err(Refused("ERR MULTI calls can not be nested".to_owned()));
        }
        commands::check_known(command)?;
        let arguments = (0..command.arguments()).map_while(|index| command.argument(index));
        let mut kept = Replies::default();
        kept.array(command.arguments() + 1);
        std::iter::once(command.name()).chain(arguments).for_each(|word| kept.bulk(word));
        if self.count >= MAX_COMMANDS || self.frames.len() + kept.bytes().len() > MAX_BYTES {
            return Err(Refused(format!(
                "ERR a transaction has {MAX_COMMANDS} commands and {MAX_BYTES} bytes at most; use a plain pipeline"
            )));
        }
        self.frames.extend_from_slice(kept.bytes());
        self.count += 1;
        Ok(())
    }

    /// How many answers will follow; an error if there will be none.
    pub(crate) fn announce(&self, replies: &mut Replies) {
        if self.is_broken {
            replies.error("EXECABORT Transaction discarded because of previous errors.");
        } else {
            replies.array(self.count);
        }
    }

    /// Takes the next command off the front: the bytes that it takes, and its words.
    pub(crate) fn next(&self, from: usize, words: &mut Words) -> Option<usize> {
        let frames = if self.is_broken { &[] } else { self.frames.get(from..).unwrap_or_default() };
        frame::read(frames, words).ok().flatten()
    }

    /// The bytes of the commands from a place on.
    pub(crate) fn frames(&self, from: usize) -> &[u8] {
        self.frames.get(from..).unwrap_or_default()
    }
}

/// The most commands between `MULTI` and `EXEC`.
const MAX_COMMANDS: usize = 128;
/// The most bytes of them.
const MAX_BYTES: usize = frame::MAX_FRAME_BYTES;
