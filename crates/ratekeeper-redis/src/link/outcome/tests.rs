use std::io;

use redis::{ErrorKind, RedisError};

use super::*;

/// The outcome of a reply with these bytes.
fn of_bytes(bytes: &str) -> CallOutcome {
    CallOutcome::of(redis::parse_redis_value(bytes.as_bytes()), Instant::now())
}

/// Every error that a server sends before it executes a script, in the server's wording.
#[test]
fn errors_before_execution_are_not_executed() {
    let cases = [
        ("READONLY You can't write against a read only replica.", NotExecuted::ReadOnly),
        ("LOADING Redis is loading the dataset in memory", NotExecuted::Loading),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", NotExecuted::Busy),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", NotExecuted::PrimaryDown),
        ("CLUSTERDOWN The cluster is down", NotExecuted::ClusterDown),
        ("CLUSTERDOWN Hash slot not served", NotExecuted::ClusterDown),
        ("TRYAGAIN Multiple keys request during rehashing of slot", NotExecuted::TryAgain),
        ("OOM command not allowed when used memory > 'maxmemory'.", NotExecuted::OutOfMemory),
        (
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist",
            NotExecuted::CannotSave,
        ),
        ("NOREPLICAS Not enough good replicas to write.", NotExecuted::TooFewReplicas),
        ("ERR max number of clients reached", NotExecuted::TooManyClients),
        ("ERR max number of clients + cluster connections reached", NotExecuted::TooManyClients),
    ];
    for (words, why) in cases {
        assert_eq!(of_bytes(&format!("-{words}\r\n")), CallOutcome::NotExecuted(why), "{words}");
    }
    assert_eq!(of_bytes("-NOSCRIPT No matching script. Please use EVAL.\r\n"), CallOutcome::NoScript);
}

#[test]
fn permanent_errors_are_refused_with_their_text() {
    let cases = [
        ("WRONGTYPE", "Operation against a key holding the wrong kind of value"),
        ("ERR", "unknown command 'EVALSHA'"),
        ("ERR", "user_script:1: attempt to index a nil value script: f00, on @user_script:1."),
        ("CROSSSLOT", "Keys in request don't hash to the same slot"),
        ("NOAUTH", "Authentication required."),
        ("WRONGPASS", "invalid username-password pair or user is disabled."),
        ("NOPERM", "User rk has no permissions to run the 'evalsha' command"),
        ("DENIED", "Redis is running in protected mode"),
        ("EXECABORT", "Transaction discarded because of previous errors."),
        ("NEVERSEEN", "before"),
    ];
    for (code, message) in cases {
        let refusal = ErrorReply { code: code.into(), message: message.into() };
        assert_eq!(of_bytes(&format!("-{code} {message}\r\n")), CallOutcome::Refused(refusal));
    }
}

#[test]
fn redirects_are_read() {
    let to = |slot, to: &str, is_ask| CallOutcome::Redirected(Redirect { slot, to: to.into(), is_ask });
    assert_eq!(of_bytes("-MOVED 3999 127.0.0.1:6381\r\n"), to(3999, "127.0.0.1:6381", false));
    assert_eq!(of_bytes("-ASK 16383 ::1:6381\r\n"), to(16383, "::1:6381", true));
    assert_eq!(of_bytes("-MOVED 1 :7001\r\n"), to(1, ":7001", false));
    assert_eq!(of_bytes("-MOVED 1 host:7001 tls-name\r\n"), to(1, "host:7001", false));
    for nonsense in ["-MOVED\r\n", "-MOVED 1\r\n", "-ASK x y\r\n", "-MOVED 70000 a:1\r\n"] {
        assert!(matches!(of_bytes(nonsense), CallOutcome::Refused(_)), "{nonsense}");
    }
}

#[test]
fn every_other_reply_is_an_answer() {
    for (bytes, value) in [
        (":7\r\n", Value::Int(7)),
        ("$2\r\nOK\r\n", Value::BulkString(b"OK".into())),
        ("*1\r\n:1\r\n", Value::Array(vec![Value::Int(1)])),
        ("$-1\r\n", Value::Nil),
    ] {
        assert!(matches!(of_bytes(bytes), CallOutcome::Answered(answer) if answer.value == value), "{bytes}");
    }
}

/// A call that was handed to the connection and has no reply may have been executed.
#[test]
fn every_failure_without_a_reply_is_an_unknown_outcome() {
    let io = |kind| RedisError::from(io::Error::from(kind));
    let kind = |kind| RedisError::from((kind, "in words"));
    let failures = [
        io(io::ErrorKind::BrokenPipe),
        io(io::ErrorKind::ConnectionReset),
        io(io::ErrorKind::ConnectionAborted),
        io(io::ErrorKind::UnexpectedEof),
        io(io::ErrorKind::TimedOut),
        io(io::ErrorKind::InvalidData),
        kind(ErrorKind::Io),
        kind(ErrorKind::Parse),
        kind(ErrorKind::Client),
        kind(ErrorKind::UnexpectedReturnType),
    ];
    for failure in failures {
        let words = failure.to_string();
        assert!(matches!(CallOutcome::of(Err(failure), Instant::now()), CallOutcome::Unknown { .. }), "{words}");
    }
    assert!(matches!(of_bytes("?nonsense\r\n"), CallOutcome::Unknown { .. }));
}

#[test]
fn errors_that_every_call_would_get_are_unhealthy() {
    assert!(
        NotExecuted::Loading.is_unhealthy()
            && NotExecuted::Busy.is_unhealthy()
            && NotExecuted::PrimaryDown.is_unhealthy()
    );
    assert!(
        !NotExecuted::OutOfMemory.is_unhealthy()
            && !NotExecuted::ClusterDown.is_unhealthy()
            && !NotExecuted::TryAgain.is_unhealthy()
    );
}
