//! What is said to whom: the command's name decides which file answers it.
//!
//! Every command gets exactly one answer, an error if need be, and errors leave the connection as it was. What is wrong
//! is said in Redis' way, so that client libraries recognise it: a word for the kind (`ERR`, `NOAUTH`, `WRONGPASS`,
//! `NOPERM`), then a sentence.

mod delete;
mod gcra;
mod greeting;
mod limits;
mod numbers;
mod table;
mod throttle;
mod waiting;

pub(crate) use self::waiting::Waiting;
use super::{frame::Command, reply::Replies, session::Session};
use crate::telemetry::Wire;

/// Answers one command; or says what has to be asked of the store first, if that is far away. All else that may refuse
/// the command has been looked at then, so that what comes after it may change the session.
#[inline]
pub(crate) fn answer(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Option<Waiting> {
    let traces = session.engine.telemetry().traces();
    match if traces.is_on() { traced(command.name()) } else { None } {
        None => carry_out(session, command, replies),
        Some(name) => {
            let trace = traces.request(Wire::Resp, || name, None);
            let waiting = trace.within(|| carry_out(session, command, replies));
            waiting.map(|waiting| waiting.followed_by(trace))
        }
    }
}

/// The name that traces know a decision by. Greetings are none.
fn traced(name: &[u8]) -> Option<&'static str> {
    let names = ["CL.THROTTLE", "THROTTLE", "GCRA", "TG.CHECK", "TG.REFUND", "TG.RESET", "DEL", "UNLINK"];
    names.into_iter().find(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

#[inline]
fn carry_out(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Option<Waiting> {
    session.keep_up();
    let name = command.name();
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    let told = match name.len() {
        // Those that come by the million first.
        11 if is("CL.THROTTLE") => return begun(throttle::cl_throttle(session, command, replies), replies),
        8 if is("THROTTLE") => return begun(throttle::throttle(session, command, replies), replies),
        4 if is("GCRA") => return begun(throttle::gcra(session, command, replies), replies),
        8 if is("TG.CHECK") => return begun(limits::check(session, command, replies), replies),
        9 if is("TG.REFUND") => return begun(limits::refund(session, command, replies), replies),
        8 if is("TG.RESET") => return begun(limits::reset(session, command, replies), replies),
        3 if is("DEL") => return begun(delete::delete(session, command, "DEL key [key …]", replies), replies),
        6 if is("UNLINK") => return begun(delete::delete(session, command, "UNLINK key [key …]", replies), replies),
        4 if is("PING") => greeting::ping(session, command, replies),
        4 if is("ECHO") => greeting::echo(session, command, replies),
        4 if is("AUTH") => greeting::auth(session, command, replies),
        4 if is("INFO") => greeting::info(session, command, replies),
        4 if is("QUIT") => greeting::quit(session, replies),
        5 if is("HELLO") => greeting::hello(session, command, replies),
        5 if is("RESET") => greeting::reset(session, command, replies),
        5 if is("MULTI") => greeting::multi(session, command, replies),
        4 if is("EXEC") => Err(Refused::because("EXEC without MULTI")),
        7 if is("DISCARD") => Err(Refused::because("DISCARD without MULTI")),
        4 if is("POST") => greeting::not_http(session),
        5 if is("HOST:") => greeting::not_http(session),
        6 if is("SELECT") => greeting::select(session, command, replies),
        6 if is("CLIENT") => greeting::client(session, command, replies),
        6 if is("CONFIG") => greeting::config(session, command, replies),
        7 if is("COMMAND") => table::command(session, command, replies),
        _ => Err(unknown(command)),
    };
    if let Err(Refused(line)) = told {
        replies.error(&line);
    }
    None
}

/// Whether a command may change, or tells, what the answers before it have come to: it waits for them.
pub(crate) fn waits_for_all_before(command: Command<'_>) -> bool {
    let name = command.name();
    ["AUTH", "HELLO", "RESET", "QUIT", "SELECT", "CLIENT", "INFO", "MULTI", "DEL", "UNLINK"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

#[inline]
fn begun(begun: Begun, replies: &mut Replies) -> Option<Waiting> {
    begun.unwrap_or_else(|Refused(line)| {
        replies.error(&line);
        None
    })
}

/// Why a command is not carried out: a line that starts with the kind of error.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Refused(pub(crate) String);

type Told = Result<(), Refused>;

/// Answered, refused, or still to be asked of the store.
type Begun = Result<Option<Waiting>, Refused>;

impl Refused {
    fn because(what: impl std::fmt::Display) -> Self {
        Self(format!("ERR {what}"))
    }

    /// How a command is written that was written otherwise.
    fn usage(usage: &str) -> Self {
        let name = usage.split(' ').next().unwrap_or(usage);
        Self(format!("ERR wrong number of arguments for '{}' command; write {usage}", name.to_ascii_lowercase()))
    }

    fn syntax(found: &[u8], usage: &str) -> Self {
        Self(format!("ERR syntax error at '{}'; write {usage}", shown(found)))
    }
}

/// Whether there is such a command with so many words, for those who will carry it out later.
pub(crate) fn check_known(command: Command<'_>) -> Told {
    table::check(command).unwrap_or_else(|| Err(unknown(command)))
}

fn unknown(command: Command<'_>) -> Refused {
    let mut line = format!("ERR unknown command '{}', with args beginning with:", shown(command.name()));
    for argument in (0..command.arguments()).map_while(|index| command.argument(index)).take(SHOWN_ARGUMENTS) {
        line.push_str(&format!(" '{}'", shown(argument)));
    }
    Refused(line)
}

/// What a client has sent, as it may be sent back: readable, and short.
fn shown(bytes: &[u8]) -> String {
    let end = bytes.len().min(SHOWN_BYTES);
    let dots = if end < bytes.len() { "…" } else { "" };
    format!("{}{dots}", bytes[..end].escape_ascii())
}

/// So much of a word is shown in an error.
const SHOWN_BYTES: usize = 64;
/// So many words are.
const SHOWN_ARGUMENTS: usize = 4;
