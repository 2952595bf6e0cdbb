//! `DEL key [key …]` and `UNLINK`: reset keys whose limits come with the call.
//!
//! Users of redis-cell reset a limit by deleting its key. The names are those of `CL.THROTTLE`, `THROTTLE` and `GCRA`; keys under rule
//! files have `TG.RESET`. The answer is the number of keys that existed: those that had used permits, since a key at rest is
//! not kept. Like those commands it needs a token for every domain.
//!
//! Bound: a command has at most [`MAX_WORDS`](crate::resp::frame::MAX_WORDS) words.

use super::{Begun, Command, Refused, Replies, Session, Waiting, numbers};

pub(super) fn delete(session: &Session, command: Command<'_>, usage: &str, replies: &mut Replies) -> Begun {
    session.admit_to_throttle()?;
    let mut keys = Vec::with_capacity(command.arguments());
    for word in (0..command.arguments()).map_while(|index| command.argument(index)) {
        let key = numbers::text("the key", word)?;
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return Err(Refused::usage(usage));
    }
    match session.engine.reset_throttles_now(&keys) {
        Some(reset) => {
            replies.integer(count(reset.map_err(Refused::because)?));
            Ok(None)
        }
        None => Ok(Some(Waiting::delete(&keys))),
    }
}

pub(super) fn count(reset: usize) -> i64 {
    i64::try_from(reset).unwrap_or(i64::MAX)
}
