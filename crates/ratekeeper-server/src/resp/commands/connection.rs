//! Connection commands: `PING`, `HELLO`, `AUTH`, `CLIENT`, `INFO` and others that client libraries, redis-cli and
//! redis-benchmark send in addition to rate limit commands.

use super::{Command, CommandError, CommandResult, Replies, Session, numbers, shown};
use crate::{
    resp::{reply::Protocol, transaction::Transaction},
    telemetry::Wire,
    wiring::StoreHealth,
};

pub(super) fn ping(_session: &Session, command: Command<'_>, replies: &mut Replies) -> CommandResult {
    match (command.argument(0), command.arguments()) {
        (None, _) => replies.status("PONG"),
        (Some(message), 1) => replies.bulk(message),
        _ => return Err(CommandError::usage("PING [message]")),
    }
    Ok(())
}

pub(super) fn echo(session: &Session, command: Command<'_>, replies: &mut Replies) -> CommandResult {
    session.admit()?;
    match (command.argument(0), command.arguments()) {
        (Some(message), 1) => replies.bulk(message),
        _ => return Err(CommandError::usage("ECHO message")),
    }
    Ok(())
}

pub(super) fn quit(session: &mut Session, replies: &mut Replies) -> CommandResult {
    session.is_over = true;
    replies.status("OK");
    Ok(())
}

pub(super) fn reset(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> CommandResult {
    if command.arguments() > 0 {
        return Err(CommandError::usage("RESET"));
    }
    session.reset();
    replies.protocol = Protocol::Two;
    replies.status("RESET");
    Ok(())
}

/// Starts a transaction: commands are queued until `EXEC`.
pub(super) fn multi(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> CommandResult {
    session.admit()?;
    if command.arguments() > 0 {
        return Err(CommandError::usage("MULTI"));
    }
    session.transaction = Some(Transaction::default());
    replies.status("OK");
    Ok(())
}

/// Closes the connection on an HTTP request. A web page can make a browser post to this port, and lines of the body
/// could be commands.
pub(super) fn not_http(session: &mut Session) -> CommandResult {
    session.is_over = true;
    session.engine.telemetry().bad_requests.get_or_create(&Wire::Resp.label()).inc();
    Err(CommandError::because("this is not an HTTP port; the connection is closed"))
}

/// There is one database, with index 0.
pub(super) fn select(session: &Session, command: Command<'_>, replies: &mut Replies) -> CommandResult {
    session.admit()?;
    match (command.argument(0), command.arguments()) {
        (Some(b"0"), 1) => replies.status("OK"),
        (Some(_), 1) => return Err(CommandError::because("DB index is out of range; there is only 0")),
        _ => return Err(CommandError::usage("SELECT 0")),
    }
    Ok(())
}

/// `AUTH token`, or `AUTH username token`; the username is ignored.
pub(super) fn auth(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> CommandResult {
    let token = match (command.argument(0), command.argument(1), command.arguments()) {
        (Some(token), None, _) | (Some(_), Some(token), 2) => token,
        _ => return Err(CommandError::usage("AUTH [username] token")),
    };
    session.authenticate(token)?;
    replies.status("OK");
    Ok(())
}

pub(super) fn hello(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> CommandResult {
    const USAGE: &str = "HELLO [2|3 [AUTH username token] [SETNAME name]]";
    let protocol = match command.argument(0) {
        None => replies.protocol,
        Some(b"2") => Protocol::Two,
        Some(b"3") => Protocol::Three,
        Some(_) => return Err(CommandError("NOPROTO unsupported protocol version; 2 and 3 are supported".to_owned())),
    };
    let (mut index, mut name, mut presented) = (1, None, None);
    while let Some(word) = command.argument(index) {
        match (command.argument(index + 1), command.argument(index + 2)) {
            (Some(_), Some(token)) if word.eq_ignore_ascii_case(b"AUTH") => {
                presented = Some(token);
                index += 3;
            }
            (Some(given), _) if word.eq_ignore_ascii_case(b"SETNAME") => {
                name = Some(checked_name(given)?);
                index += 2;
            }
            _ => return Err(CommandError::syntax(word, USAGE)),
        }
    }
    // After all arguments are parsed, so that a syntax error leaves the session unchanged.
    if let Some(token) = presented {
        session.authenticate(token)?;
    }
    session.admit()?;
    if let Some(name) = name {
        session.name = name;
    }
    replies.protocol = protocol;
    replies.map(7);
    for (field, value) in [("server", "ratekeeper"), ("version", env!("CARGO_PKG_VERSION"))] {
        replies.bulk(field);
        replies.bulk(value);
    }
    replies.bulk("proto");
    replies.integer(protocol.number());
    replies.bulk("id");
    replies.integer(i64::try_from(session.id).unwrap_or(i64::MAX));
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        replies.bulk(field);
        replies.bulk(value);
    }
    replies.bulk("modules");
    replies.array(0);
    Ok(())
}

pub(super) fn client(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> CommandResult {
    session.admit()?;
    let Some(what) = command.argument(0) else { return Err(CommandError::usage("CLIENT subcommand [argument ...]")) };
    let is = |known: &str| what.eq_ignore_ascii_case(known.as_bytes());
    match (command.argument(1), command.arguments()) {
        (Some(name), 2) if is("SETNAME") => {
            session.name = checked_name(name)?;
            replies.status("OK");
        }
        (None, 1) if is("GETNAME") => replies.bulk(session.name.as_bytes()),
        (None, 1) if is("ID") => replies.integer(i64::try_from(session.id).unwrap_or(i64::MAX)),
        (None, 1) if is("INFO") => {
            let (id, name, resp) = (session.id, &session.name, replies.protocol.number());
            replies.text(&format!("id={id} name={name} db=0 resp={resp}\n"));
        }
        // Names and versions of libraries are accepted and not stored.
        (Some(_), 3) if is("SETINFO") => replies.status("OK"),
        (Some(_), 2) if is("NO-EVICT") || is("NO-TOUCH") => replies.status("OK"),
        _ => {
            let what = shown(what);
            return Err(CommandError::because(format_args!(
                "unknown subcommand or wrong number of arguments for 'CLIENT {what}'; SETNAME, GETNAME, ID, INFO and SETINFO are supported"
            )));
        }
    }
    Ok(())
}

/// `CONFIG GET` of two settings that redis-benchmark reads. Nothing can be set.
pub(super) fn config(session: &Session, command: Command<'_>, replies: &mut Replies) -> CommandResult {
    session.admit()?;
    let is_get = command.argument(0).is_some_and(|word| word.eq_ignore_ascii_case(b"GET"));
    if !is_get || command.arguments() < 2 {
        return Err(CommandError::because(
            "only CONFIG GET is supported; the server is configured by its flags and rule files",
        ));
    }
    let is_requested = |name: &str| {
        let mut names = (1..command.arguments()).map_while(|index| command.argument(index));
        names.any(|word| word == b"*" || word.eq_ignore_ascii_case(name.as_bytes()))
    };
    let found: Vec<_> =
        [("save", ""), ("appendonly", "no")].into_iter().filter(|(name, _)| is_requested(name)).collect();
    replies.map(found.len());
    for (name, value) in found {
        replies.bulk(name);
        replies.bulk(value);
    }
    Ok(())
}

pub(super) fn info(session: &Session, _command: Command<'_>, replies: &mut Replies) -> CommandResult {
    session.admit()?;
    let health = StoreHealth::of(session.engine.store());
    let lines = [
        "# Server".to_owned(),
        format!("ratekeeper_version:{}", env!("CARGO_PKG_VERSION")),
        // Client libraries derive the supported features from this version.
        "redis_version:7.0.0".to_owned(),
        "redis_mode:standalone".to_owned(),
        format!("process_id:{}", std::process::id()),
        String::new(),
        "# Keys".to_owned(),
        format!("store:{}", health.kind),
        format!("keys:{}", health.keys),
        format!("key_bytes:{}", health.bytes),
        format!("expired_keys:{}", health.expired),
        format!("evicted_keys:{}", health.evicted),
        String::new(),
    ];
    replies.text(&lines.join("\r\n"));
    Ok(())
}

/// A client name, with the restriction of Redis: printable ASCII without blanks.
fn checked_name(name: &[u8]) -> Result<String, CommandError> {
    if name.len() > MAX_NAME_BYTES || !name.iter().all(u8::is_ascii_graphic) {
        return Err(CommandError::because(format_args!(
            "the name must have at most {MAX_NAME_BYTES} printable characters and no blanks"
        )));
    }
    numbers::text("the name", name).map(str::to_owned)
}

/// The longest client name.
const MAX_NAME_BYTES: usize = 128;
