//! Command table for `COMMAND`: arity, flags and key positions.

use super::{Command, CommandError, CommandResult, Replies, Session, shown};

/// One entry of the reply to `COMMAND`.
struct CommandInfo {
    name: &'static str,
    /// Number of words, including the name; a negative number is a minimum.
    arity: i64,
    flags: &'static [&'static str],
    /// Position of the first key; 0 if there is none. Domains are not keys: cluster clients would route by them.
    key: i64,
    /// Position of the last key; −1 is the last word.
    last_key: i64,
}

const fn listed(name: &'static str, arity: i64, flags: &'static [&'static str], key: i64) -> CommandInfo {
    CommandInfo { name, arity, flags, key, last_key: key }
}

/// A command with one or more keys.
const fn with_keys(name: &'static str, flags: &'static [&'static str]) -> CommandInfo {
    CommandInfo { name, arity: -2, flags, key: 1, last_key: -1 }
}

/// Flags of commands on limits.
const LIMITS: &[&str] = &["write", "fast"];
/// Flags of connection commands.
const CONNECTION: &[&str] = &["loading", "stale", "fast"];
/// Flags of commands that need no token.
const NO_AUTH: &[&str] = &["loading", "stale", "fast", "no_auth"];

const COMMANDS: &[CommandInfo] = &[
    listed("cl.throttle", -5, LIMITS, 1),
    listed("throttle", -5, LIMITS, 1),
    listed("gcra", -5, LIMITS, 1),
    listed("rk.check", -3, LIMITS, 2),
    listed("rk.take", -5, LIMITS, 1),
    listed("rk.peek", -3, &["readonly", "fast"], 2),
    listed("rk.reserve", -5, LIMITS, 2),
    listed("rk.commit", -7, LIMITS, 2),
    listed("rk.cancel", -5, LIMITS, 2),
    listed("rk.refund", -3, LIMITS, 2),
    listed("rk.settle", -7, LIMITS, 2),
    listed("rk.penalize", -3, LIMITS, 2),
    listed("rk.block", -5, LIMITS, 2),
    listed("rk.reset", -3, LIMITS, 2),
    listed("rk.release", -3, LIMITS, 2),
    listed("rk.heartbeat", -5, LIMITS, 2),
    with_keys("del", LIMITS),
    with_keys("unlink", LIMITS),
    listed("ping", -1, CONNECTION, 0),
    listed("echo", 2, CONNECTION, 0),
    listed("select", 2, CONNECTION, 0),
    listed("client", -2, CONNECTION, 0),
    listed("config", -2, CONNECTION, 0),
    listed("command", -1, CONNECTION, 0),
    listed("info", -1, CONNECTION, 0),
    listed("auth", -2, NO_AUTH, 0),
    listed("hello", -1, NO_AUTH, 0),
    listed("reset", 1, NO_AUTH, 0),
    listed("quit", -1, NO_AUTH, 0),
    listed("multi", 1, CONNECTION, 0),
    listed("exec", 1, CONNECTION, 0),
    listed("discard", 1, CONNECTION, 0),
];

/// Checks the number of words of a command; `None` if the command is unknown.
pub(super) fn check(command: Command<'_>) -> Option<CommandResult> {
    let listed = COMMANDS.iter().find(|listed| command.name().eq_ignore_ascii_case(listed.name.as_bytes()))?;
    let words = i64::try_from(command.arguments() + 1).unwrap_or(i64::MAX);
    let fits = if listed.arity < 0 { words >= -listed.arity } else { words == listed.arity };
    let wrong = || CommandError::because(format_args!("wrong number of arguments for '{}' command", listed.name));
    Some(if fits { Ok(()) } else { Err(wrong()) })
}

pub(super) fn command(session: &Session, command: Command<'_>, replies: &mut Replies) -> CommandResult {
    session.admit()?;
    let Some(what) = command.argument(0) else {
        replies.array(COMMANDS.len());
        COMMANDS.iter().for_each(|listed| write_info(replies, listed));
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
                Some(listed) => write_info(replies, listed),
                None => replies.null(),
            }
        }
    } else {
        let what = shown(what);
        return Err(CommandError::because(format_args!(
            "unknown subcommand '{what}'; COUNT, LIST, INFO and DOCS are supported"
        )));
    }
    Ok(())
}

fn write_info(replies: &mut Replies, listed: &CommandInfo) {
    replies.array(10);
    replies.bulk(listed.name);
    replies.integer(listed.arity);
    replies.array(listed.flags.len());
    listed.flags.iter().for_each(|flag| replies.status(flag));
    let step = i64::from(listed.key > 0);
    [listed.key, listed.last_key, step].into_iter().for_each(|position| replies.integer(position));
    // ACL categories, hints, key specifications and subcommands, as of Redis 7; all empty.
    (0..4).for_each(|_| replies.array(0));
}
