use std::io;

use redis::{ErrorKind, RedisError};

use super::*;

/// As the bytes on the wire are read by the client.
fn of_bytes(bytes: &str) -> Fate {
    Fate::of(redis::parse_redis_value(bytes.as_bytes()), Instant::now())
}

/// The whole table of the reliability notes, section 3.1, in the servers' own words.
#[test]
fn every_refusal_before_the_run_is_known_as_such() {
    let cases = [
        ("READONLY You can't write against a read only replica.", NotRun::ReadOnly),
        ("LOADING Redis is loading the dataset in memory", NotRun::Loading),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", NotRun::Busy),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", NotRun::PrimaryDown),
        ("CLUSTERDOWN The cluster is down", NotRun::ClusterDown),
        ("CLUSTERDOWN Hash slot not served", NotRun::ClusterDown),
        ("TRYAGAIN Multiple keys request during rehashing of slot", NotRun::TryAgain),
        ("OOM command not allowed when used memory > 'maxmemory'.", NotRun::OutOfMemory),
        ("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist", NotRun::CannotSave),
        ("NOREPLICAS Not enough good replicas to write.", NotRun::TooFewReplicas),
        ("ERR max number of clients reached", NotRun::TooManyClients),
        ("ERR max number of clients + cluster connections reached", NotRun::TooManyClients),
    ];
    for (words, why) in cases {
        assert_eq!(of_bytes(&format!("-{words}\r\n")), Fate::NotRun(why), "{words}");
    }
    assert_eq!(of_bytes("-NOSCRIPT No matching script. Please use EVAL.\r\n"), Fate::NoScript);
}

#[test]
fn what_asking_again_would_not_change_is_refused_with_its_words() {
    let cases = [
        ("WRONGTYPE", "Operation against a key holding the wrong kind of value"),
        ("ERR", "unknown command 'EVALSHA'"),
        ("ERR", "user_script:1: attempt to index a nil value script: f00, on @user_script:1."),
        ("CROSSSLOT", "Keys in request don't hash to the same slot"),
        ("NOAUTH", "Authentication required."),
        ("WRONGPASS", "invalid username-password pair or user is disabled."),
        ("NOPERM", "User tg has no permissions to run the 'evalsha' command"),
        ("DENIED", "Redis is running in protected mode"),
        ("EXECABORT", "Transaction discarded because of previous errors."),
        ("NEVERSEEN", "before"),
    ];
    for (code, message) in cases {
        let refusal = Refusal { code: code.into(), message: message.into() };
        assert_eq!(of_bytes(&format!("-{code} {message}\r\n")), Fate::Refused(refusal));
    }
}

#[test]
fn redirects_are_read() {
    let to = |slot, to: &str, is_for_once| Fate::Elsewhere(Redirect { slot, to: to.into(), is_for_once });
    assert_eq!(of_bytes("-MOVED 3999 127.0.0.1:6381\r\n"), to(3999, "127.0.0.1:6381", false));
    assert_eq!(of_bytes("-ASK 16383 ::1:6381\r\n"), to(16383, "::1:6381", true));
    assert_eq!(of_bytes("-MOVED 1 :7001\r\n"), to(1, ":7001", false));
    assert_eq!(of_bytes("-MOVED 1 host:7001 tls-name\r\n"), to(1, "host:7001", false));
    for nonsense in ["-MOVED\r\n", "-MOVED 1\r\n", "-ASK x y\r\n", "-MOVED 70000 a:1\r\n"] {
        assert!(matches!(of_bytes(nonsense), Fate::Refused(_)), "{nonsense}");
    }
}

#[test]
fn what_is_no_error_is_an_answer() {
    for (bytes, value) in [
        (":7\r\n", Value::Int(7)),
        ("$2\r\nOK\r\n", Value::BulkString(b"OK".into())),
        ("*1\r\n:1\r\n", Value::Array(vec![Value::Int(1)])),
        ("$-1\r\n", Value::Nil),
    ] {
        assert!(matches!(of_bytes(bytes), Fate::Answered(answer) if answer.value == value), "{bytes}");
    }
}

/// Once a call has been handed over, a missing answer says nothing about it.
#[test]
fn every_failure_that_is_no_reply_leaves_the_fate_unknown() {
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
        assert!(matches!(Fate::of(Err(failure), Instant::now()), Fate::Unknown { .. }), "{words}");
    }
    assert!(matches!(of_bytes("?nonsense\r\n"), Fate::Unknown { .. }));
}

#[test]
fn sick_is_what_everybody_would_hear() {
    assert!(NotRun::Loading.is_sick() && NotRun::Busy.is_sick() && NotRun::PrimaryDown.is_sick());
    assert!(!NotRun::OutOfMemory.is_sick() && !NotRun::ClusterDown.is_sick() && !NotRun::TryAgain.is_sick());
}
