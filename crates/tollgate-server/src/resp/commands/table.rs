//! The commands there are, for clients that ask: how many words each has, and where among them its key is.

use super::{Command, Refused, Replies, Session, Told, shown};

/// A command as `COMMAND` lists it.
struct Listed {
    name: &'static str,
    /// Words, the name included; negative: at least so many.
    arity: i64,
    flags: &'static [&'static str],
    /// Which word is the first key; 0 if none is. Domains are not keys, or clients of clusters would send them around.
    key: i64,
    /// Which word is the last key; −1: the last word.
    last_key: i64,
}

const fn listed(name: &'static str, arity: i64, flags: &'static [&'static str], key: i64) -> Listed {
    Listed { name, arity, flags, key, last_key: key }
}

/// A command of one key or more.
const fn with_keys(name: &'static str, flags: &'static [&'static str]) -> Listed {
    Listed { name, arity: -2, flags, key: 1, last_key: -1 }
}

const LIMITS: &[&str] = &["write", "fast"];
const MANNERS: &[&str] = &["loading", "stale", "fast"];
const OPEN: &[&str] = &["loading", "stale", "fast", "no_auth"];

const COMMANDS: &[Listed] = &[
    listed("cl.throttle", -5, LIMITS, 1),
    listed("throttle", -5, LIMITS, 1),
    listed("gcra", -5, LIMITS, 1),
    listed("tg.check", -3, LIMITS, 2),
    listed("tg.refund", -3, LIMITS, 2),
    listed("tg.reset", 3, LIMITS, 2),
    with_keys("del", LIMITS),
    with_keys("unlink", LIMITS),
    listed("ping", -1, MANNERS, 0),
    listed("echo", 2, MANNERS, 0),
    listed("select", 2, MANNERS, 0),
    listed("client", -2, MANNERS, 0),
    listed("config", -2, MANNERS, 0),
    listed("command", -1, MANNERS, 0),
    listed("info", -1, MANNERS, 0),
    listed("auth", -2, OPEN, 0),
    listed("hello", -1, OPEN, 0),
    listed("reset", 1, OPEN, 0),
    listed("quit", -1, OPEN, 0),
    listed("multi", 1, MANNERS, 0),
    listed("exec", 1, MANNERS, 0),
    listed("discard", 1, MANNERS, 0),
];

/// Whether a command is listed, and then whether it has as many words as it should.
pub(super) fn check(command: Command<'_>) -> Option<Told> {
    let listed = COMMANDS.iter().find(|listed| command.name().eq_ignore_ascii_case(listed.name.as_bytes()))?;
    let words = i64::try_from(command.arguments() + 1).unwrap_or(i64::MAX);
    let fits = if listed.arity < 0 { words >= -listed.arity } else { words == listed.arity };
    let wrong = || Refused::because(format_args!("wrong number of arguments for '{}' command", listed.name));
    Some(if fits { Ok(()) } else { Err(wrong()) })
}

pub(super) fn command(session: &Session, command: Command<'_>, replies: &mut Replies) -> Told {
    session.admit()?;
    let Some(what) = command.argument(0) else {
        replies.array(COMMANDS.len());
        COMMANDS.iter().for_each(|listed| tell(replies, listed));
        return Ok(());
    };
    let is = |known: &str| what.eq_ignore_ascii_case(known.as_bytes());
    if is("COUNT") {
        replies.integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX));
    } else if is("DOCS") {
        replies.map(0); // docs/resp.md has them
    } else if is("LIST") {
        replies.array(COMMANDS.len());
        COMMANDS.iter().for_each(|listed| replies.bulk(listed.name));
    } else if is("INFO") {
        replies.array(command.arguments() - 1);
        for name in (1..command.arguments()).map_while(|index| command.argument(index)) {
            match COMMANDS.iter().find(|listed| name.eq_ignore_ascii_case(listed.name.as_bytes())) {
                Some(listed) => tell(replies, listed),
                None => replies.null(),
            }
        }
    } else {
        let what = shown(what);
        return Err(Refused::because(format_args!(
            "unknown subcommand '{what}'; COUNT, LIST, INFO and DOCS are known"
        )));
    }
    Ok(())
}

fn tell(replies: &mut Replies, listed: &Listed) {
    replies.array(10);
    replies.bulk(listed.name);
    replies.integer(listed.arity);
    replies.array(listed.flags.len());
    listed.flags.iter().for_each(|flag| replies.status(flag));
    let step = i64::from(listed.key > 0);
    [listed.key, listed.last_key, step].into_iter().for_each(|place| replies.integer(place));
    // Since Redis 7: categories, hints, where keys are, subcommands. There is nothing to add.
    (0..4).for_each(|_| replies.array(0));
}
