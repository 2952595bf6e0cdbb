//! Dispatch of RESP commands by name.
//!
//! Every command has exactly one reply. An error leaves the connection as it was. Errors have the form of Redis, so
//! that client libraries recognise them: an error code (`ERR`, `NOAUTH`, `WRONGPASS`, `NOPERM`), then a sentence.

mod connection;
mod delete;
mod gcra;
mod limits;
mod numbers;
mod pending;
mod table;
mod take;
mod throttle;

pub(crate) use self::pending::Pending;
use super::{frame::Command, reply::Replies, session::Session};
use crate::telemetry::Wire;

/// Executes one command. Returns the store call still to be made if the store is remote; all other checks have been
/// made by then, so that later commands may change the session.
#[inline]
pub(crate) fn answer(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Option<Pending> {
    let traces = session.engine.telemetry().traces();
    match if traces.is_on() { traced(command.name()) } else { None } {
        None => execute(session, command, replies),
        Some(name) => {
            let trace = traces.request(Wire::Resp, || name, None);
            let pending = trace.within(|| execute(session, command, replies));
            pending.map(|pending| pending.with_trace(trace))
        }
    }
}

/// The span name of a command that decides; `None` for other commands, which are not traced.
fn traced(name: &[u8]) -> Option<&'static str> {
    let names = [
        "CL.THROTTLE",
        "THROTTLE",
        "GCRA",
        "RK.CHECK",
        "RK.RESERVE",
        "RK.COMMIT",
        "RK.CANCEL",
        "RK.TAKE",
        "RK.PEEK",
        "RK.REFUND",
        "RK.SETTLE",
        "RK.PENALIZE",
        "RK.BLOCK",
        "RK.RESET",
        "RK.RELEASE",
        "RK.HEARTBEAT",
        "DEL",
        "UNLINK",
    ];
    names.into_iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

#[inline]
fn execute(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Option<Pending> {
    session.refresh();
    let name = command.name();
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    let result = match name.len() {
        // The hot commands first.
        11 if is("CL.THROTTLE") => return started(throttle::cl_throttle(session, command, replies), replies),
        8 if is("THROTTLE") => return started(throttle::throttle(session, command, replies), replies),
        4 if is("GCRA") => return started(throttle::gcra(session, command, replies), replies),
        8 if is("RK.CHECK") => return started(limits::execute(session, command, &limits::CHECK, replies), replies),
        7 if is("RK.TAKE") => return started(take::take(session, command, replies), replies),
        3 if is("DEL") => return started(delete::delete(session, command, "DEL key [key …]", replies), replies),
        6 if is("UNLINK") => return started(delete::delete(session, command, "UNLINK key [key …]", replies), replies),
        4 if is("PING") => connection::ping(session, command, replies),
        4 if is("ECHO") => connection::echo(session, command, replies),
        4 if is("AUTH") => connection::auth(session, command, replies),
        4 if is("INFO") => connection::info(session, command, replies),
        4 if is("QUIT") => connection::quit(session, replies),
        5 if is("HELLO") => connection::hello(session, command, replies),
        5 if is("RESET") => connection::reset(session, command, replies),
        5 if is("MULTI") => connection::multi(session, command, replies),
        4 if is("EXEC") => Err(CommandError::because("EXEC without MULTI")),
        7 if is("DISCARD") => Err(CommandError::because("DISCARD without MULTI")),
        4 if is("POST") => connection::not_http(session),
        5 if is("HOST:") => connection::not_http(session),
        6 if is("SELECT") => connection::select(session, command, replies),
        6 if is("CLIENT") => connection::client(session, command, replies),
        6 if is("CONFIG") => connection::config(session, command, replies),
        7 if is("COMMAND") => table::command(session, command, replies),
        _ => match verb_command(name) {
            Some(verb) => return started(limits::execute(session, command, verb, replies), replies),
            None => Err(unknown(command)),
        },
    };
    if let Err(CommandError(line)) = result {
        replies.error(&line);
    }
    None
}

/// The command of a verb other than a check.
fn verb_command(name: &[u8]) -> Option<&'static limits::VerbCommand> {
    let name = name.strip_prefix(b"RK.").or_else(|| name.strip_prefix(b"rk.")).or_else(|| {
        let (prefix, rest) = name.split_at_checked(3)?;
        prefix.eq_ignore_ascii_case(b"RK.").then_some(rest)
    })?;
    VERBS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes())).map(|(_, verb)| verb)
}

/// Commands of verbs, without the prefix `RK.`.
static VERBS: [(&str, limits::VerbCommand); 11] = [
    ("RESERVE", limits::RESERVE),
    ("COMMIT", limits::COMMIT),
    ("CANCEL", limits::CANCEL),
    ("PEEK", limits::PEEK),
    ("REFUND", limits::REFUND),
    ("SETTLE", limits::SETTLE),
    ("PENALIZE", limits::PENALIZE),
    ("BLOCK", limits::BLOCK),
    ("RESET", limits::RESET),
    ("RELEASE", limits::RELEASE),
    ("HEARTBEAT", limits::HEARTBEAT),
];

/// Whether a command waits for all replies before it: it changes or reports state that they depend on or produce.
pub(crate) fn waits_for_all_before(command: Command<'_>) -> bool {
    let name = command.name();
    ["AUTH", "HELLO", "RESET", "QUIT", "SELECT", "CLIENT", "INFO", "MULTI", "DEL", "UNLINK"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

#[inline]
fn started(started: MaybePending, replies: &mut Replies) -> Option<Pending> {
    started.unwrap_or_else(|CommandError(line)| {
        replies.error(&line);
        None
    })
}

/// An error reply: one line that starts with the error code.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct CommandError(pub(crate) String);

type CommandResult = Result<(), CommandError>;

/// The reply has been written (`None`), a store call is still to be made, or an error.
type MaybePending = Result<Option<Pending>, CommandError>;

impl CommandError {
    fn because(what: impl std::fmt::Display) -> Self {
        Self(format!("ERR {what}"))
    }

    /// Wrong number of arguments; the message shows the usage.
    fn usage(usage: &str) -> Self {
        let name = usage.split(' ').next().unwrap_or(usage);
        Self(format!("ERR wrong number of arguments for '{}' command; write {usage}", name.to_ascii_lowercase()))
    }

    fn syntax(found: &[u8], usage: &str) -> Self {
        Self(format!("ERR syntax error at '{}'; write {usage}", shown(found)))
    }
}

/// Checks that a command exists and has the right number of words. Used when a transaction queues it.
pub(crate) fn check_known(command: Command<'_>) -> CommandResult {
    table::check(command).unwrap_or_else(|| Err(unknown(command)))
}

fn unknown(command: Command<'_>) -> CommandError {
    let mut line = format!("ERR unknown command '{}', with args beginning with:", shown(command.name()));
    for argument in (0..command.arguments()).map_while(|index| command.argument(index)).take(SHOWN_ARGUMENTS) {
        line.push_str(&format!(" '{}'", shown(argument)));
    }
    CommandError(line)
}

/// Client input for an error message: escaped and truncated.
fn shown(bytes: &[u8]) -> String {
    let end = bytes.len().min(SHOWN_BYTES);
    let dots = if end < bytes.len() { "…" } else { "" };
    format!("{}{dots}", bytes[..end].escape_ascii())
}

/// Bytes of each argument that an error message shows.
const SHOWN_BYTES: usize = 64;
/// Arguments that an error message shows.
const SHOWN_ARGUMENTS: usize = 4;
