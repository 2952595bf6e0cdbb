//! Manners: what client libraries, redis-cli and redis-benchmark say before, after and around the commands that matter.

use super::{Command, Refused, Replies, Session, Told, numbers, shown};
use crate::{
    resp::{reply::Protocol, transaction::Transaction},
    telemetry::Wire,
};

pub(super) fn ping(_session: &Session, command: Command<'_>, replies: &mut Replies) -> Told {
    match (command.argument(0), command.arguments()) {
        (None, _) => replies.status("PONG"),
        (Some(message), 1) => replies.bulk(message),
        _ => return Err(Refused::usage("PING [message]")),
    }
    Ok(())
}

pub(super) fn echo(session: &Session, command: Command<'_>, replies: &mut Replies) -> Told {
    session.admit()?;
    match (command.argument(0), command.arguments()) {
        (Some(message), 1) => replies.bulk(message),
        _ => return Err(Refused::usage("ECHO message")),
    }
    Ok(())
}

pub(super) fn quit(session: &mut Session, replies: &mut Replies) -> Told {
    session.is_over = true;
    replies.status("OK");
    Ok(())
}

pub(super) fn reset(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Told {
    if command.arguments() > 0 {
        return Err(Refused::usage("RESET"));
    }
    session.start_over();
    replies.protocol = Protocol::Two;
    replies.status("RESET");
    Ok(())
}

/// From here on commands are kept until `EXEC`.
pub(super) fn multi(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Told {
    session.admit()?;
    if command.arguments() > 0 {
        return Err(Refused::usage("MULTI"));
    }
    session.transaction = Some(Transaction::default());
    replies.status("OK");
    Ok(())
}

/// A browser, or whoever was talked into it, posts to this port: lines of its body could be commands, so it ends here.
pub(super) fn not_http(session: &mut Session) -> Told {
    session.is_over = true;
    session.engine.telemetry().bad_requests.get_or_create(&Wire::Resp.label()).inc();
    Err(Refused::because("this is no HTTP port; the connection is closed"))
}

/// There is one set of keys, and its number is 0.
pub(super) fn select(session: &Session, command: Command<'_>, replies: &mut Replies) -> Told {
    session.admit()?;
    match (command.argument(0), command.arguments()) {
        (Some(b"0"), 1) => replies.status("OK"),
        (Some(_), 1) => return Err(Refused::because("DB index is out of range; there is only 0")),
        _ => return Err(Refused::usage("SELECT 0")),
    }
    Ok(())
}

/// `AUTH token`, or with the user's name that some clients insist on; it is not looked at.
pub(super) fn auth(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Told {
    let token = match (command.argument(0), command.argument(1), command.arguments()) {
        (Some(token), None, _) | (Some(_), Some(token), 2) => token,
        _ => return Err(Refused::usage("AUTH [username] token")),
    };
    session.authenticate(token)?;
    replies.status("OK");
    Ok(())
}

pub(super) fn hello(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Told {
    const USAGE: &str = "HELLO [2|3 [AUTH username token] [SETNAME name]]";
    let protocol = match command.argument(0) {
        None => replies.protocol,
        Some(b"2") => Protocol::Two,
        Some(b"3") => Protocol::Three,
        Some(_) => return Err(Refused("NOPROTO unsupported protocol version; 2 and 3 are spoken".to_owned())),
    };
    let (mut index, mut name, mut shown) = (1, None, None);
    while let Some(word) = command.argument(index) {
        match (command.argument(index + 1), command.argument(index + 2)) {
            (Some(_), Some(token)) if word.eq_ignore_ascii_case(b"AUTH") => {
                shown = Some(token);
                index += 3;
            }
            (Some(given), _) if word.eq_ignore_ascii_case(b"SETNAME") => {
                name = Some(checked_name(given)?);
                index += 2;
            }
            _ => return Err(Refused::syntax(word, USAGE)),
        }
    }
    // Only now, so that an error leaves everything as it was.
    if let Some(token) = shown {
        session.authenticate(token)?;
    }
    session.admit()?;
    if let Some(name) = name {
        session.name = name;
    }
    replies.protocol = protocol;
    replies.map(7);
    for (field, value) in [("server", "tollgate"), ("version", env!("CARGO_PKG_VERSION"))] {
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

pub(super) fn client(session: &mut Session, command: Command<'_>, replies: &mut Replies) -> Told {
    session.admit()?;
    let Some(what) = command.argument(0) else { return Err(Refused::usage("CLIENT subcommand [argument ...]")) };
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
        // What libraries tell of themselves is heard and not kept.
        (Some(_), 3) if is("SETINFO") => replies.status("OK"),
        (Some(_), 2) if is("NO-EVICT") || is("NO-TOUCH") => replies.status("OK"),
        _ => {
            let what = shown(what);
            return Err(Refused::because(format_args!(
                "unknown subcommand or wrong number of arguments for 'CLIENT {what}'; SETNAME, GETNAME, ID, INFO and SETINFO are known"
            )));
        }
    }
    Ok(())
}

/// Two settings that benchmarks print; there is nothing to set.
pub(super) fn config(session: &Session, command: Command<'_>, replies: &mut Replies) -> Told {
    session.admit()?;
    let is_get = command.argument(0).is_some_and(|word| word.eq_ignore_ascii_case(b"GET"));
    if !is_get || command.arguments() < 2 {
        return Err(Refused::because("only CONFIG GET is known; the server is set up by its flags and rule files"));
    }
    let asked = |name: &str| {
        let mut wanted = (1..command.arguments()).map_while(|index| command.argument(index));
        wanted.any(|word| word == b"*" || word.eq_ignore_ascii_case(name.as_bytes()))
    };
    let found: Vec<_> = [("save", ""), ("appendonly", "no")].into_iter().filter(|(name, _)| asked(name)).collect();
    replies.map(found.len());
    for (name, value) in found {
        replies.bulk(name);
        replies.bulk(value);
    }
    Ok(())
}

pub(super) fn info(session: &Session, _command: Command<'_>, replies: &mut Replies) -> Told {
    session.admit()?;
    let health = session.engine.store().health();
    let lines = [
        "# Server".to_owned(),
        format!("tollgate_version:{}", env!("CARGO_PKG_VERSION")),
        // Libraries read from this which manners to expect.
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

/// As Redis has it: what can be printed, without blanks. It is shown in lists, one client to a line.
fn checked_name(name: &[u8]) -> Result<String, Refused> {
    if name.len() > MAX_NAME_BYTES || !name.iter().all(u8::is_ascii_graphic) {
        return Err(Refused::because(format_args!(
            "the name is not made of up to {MAX_NAME_BYTES} printable characters without blanks"
        )));
    }
    numbers::text("the name", name).map(str::to_owned)
}

const MAX_NAME_BYTES: usize = 128;
