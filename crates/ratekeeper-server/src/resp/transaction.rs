//! Transactions: commands queued between `MULTI` and `EXEC`.
//!
//! Client libraries wrap pipelines in transactions by default, so the server supports them. The commands are executed
//! in order and their replies form one array. There is no rollback and no isolation: commands of other clients may be
//! executed in between, which changes no decision's meaning.
//!
//! Bounds: [`MAX_COMMANDS`] commands and [`MAX_BYTES`] bytes.

use super::{
    commands::{self, CommandError},
    frame::{self, Command, Words},
    reply::Replies,
};

/// The commands queued since `MULTI`.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// The commands encoded as arrays, concatenated.
    frames: Vec<u8>,
    count: usize,
    /// A command could not be queued, so `EXEC` executes none.
    is_broken: bool,
}

/// The effect of a command after `MULTI`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TransactionStep {
    Keep,
    Execute,
    Discard,
    /// Ends the transaction; the command is executed at once.
    Leave,
}

impl TransactionStep {
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
    /// Queues a command. On an error the whole transaction is aborted at `EXEC`.
    pub(crate) fn keep(&mut self, command: Command<'_>, replies: &mut Replies) {
        match self.try_keep(command) {
            Ok(()) => replies.status("QUEUED"),
            Err(CommandError(line)) => {
                self.is_broken = true;
                replies.error(&line);
            }
        }
    }

    fn try_keep(&mut self, command: Command<'_>) -> Result<(), CommandError> {
        if command.name().eq_ignore_ascii_case(b"MULTI") {
            return Err(CommandError("ERR MULTI calls can not be nested".to_owned()));
        }
        commands::check_known(command)?;
        let arguments = (0..command.arguments()).map_while(|index| command.argument(index));
        let mut kept = Replies::default();
        kept.array(command.arguments() + 1);
        std::iter::once(command.name()).chain(arguments).for_each(|word| kept.bulk(word));
        if self.count >= MAX_COMMANDS || self.frames.len() + kept.bytes().len() > MAX_BYTES {
            return Err(CommandError(format!(
                "ERR a transaction has {MAX_COMMANDS} commands and {MAX_BYTES} bytes at most; use a plain pipeline"
            )));
        }
        self.frames.extend_from_slice(kept.bytes());
        self.count += 1;
        Ok(())
    }

    /// Writes the array header of the replies, or the error `EXECABORT`.
    pub(crate) fn announce(&self, replies: &mut Replies) {
        if self.is_broken {
            replies.error("EXECABORT Transaction discarded because of previous errors.");
        } else {
            replies.array(self.count);
        }
    }

    /// Parses the command at offset `from` into `words`. Returns its length in bytes; `None` at the end or if aborted.
    pub(crate) fn next(&self, from: usize, words: &mut Words) -> Option<usize> {
        let frames = if self.is_broken { &[] } else { self.frames.get(from..).unwrap_or_default() };
        frame::read(frames, words).ok().flatten()
    }

    /// The encoded commands from offset `from` on.
    pub(crate) fn frames(&self, from: usize) -> &[u8] {
        self.frames.get(from..).unwrap_or_default()
    }
}

/// Maximum number of commands between `MULTI` and `EXEC`.
const MAX_COMMANDS: usize = 128;
/// Maximum number of bytes of these commands, encoded as arrays.
const MAX_BYTES: usize = frame::MAX_FRAME_BYTES;
