//! `DEL key [key …]` and `UNLINK`: reset keys with inline limits.
//!
//! Users of redis-cell reset a limit by deleting its key. The keys are those of `CL.THROTTLE`, `THROTTLE` and `GCRA`;
//! `RK.RESET` resets keys under rule files. The reply is the number of keys that existed. A key in its initial state
//! does not exist, since it is not stored. Like the commands above, `DEL` needs a token for all domains.
//!
//! Bound: a command has at most [`MAX_WORDS`](crate::resp::frame::MAX_WORDS) words.

use super::{Command, CommandError, MaybePending, Pending, Replies, Session, numbers};

pub(super) fn delete(session: &Session, command: Command<'_>, usage: &str, replies: &mut Replies) -> MaybePending {
    session.admit_to_throttle()?;
    let mut keys = Vec::with_capacity(command.arguments());
    for word in (0..command.arguments()).map_while(|index| command.argument(index)) {
        let key = numbers::text("the key", word)?;
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return Err(CommandError::usage(usage));
    }
    match session.engine.now(|| session.engine.reset_throttles(&keys)) {
        Some(reset) => {
            replies.integer(count(reset.map_err(CommandError::because)?));
            Ok(None)
        }
        None => Ok(Some(Pending::delete(&keys))),
    }
}

pub(super) fn count(reset: usize) -> i64 {
    i64::try_from(reset).unwrap_or(i64::MAX)
}
