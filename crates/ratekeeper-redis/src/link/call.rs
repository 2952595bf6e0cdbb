//! A script call, and the command it is sent as.

use std::time::Instant;

use ratekeeper_core::Timestamp;
use redis::{Cmd, Value};

use super::script::Script;
use crate::address::HostPort;

/// One script call.
#[derive(Debug)]
pub struct Call<'a> {
    /// The script to run.
    pub script: &'a Script,
    /// Keys in one slot; the first determines the node.
    pub keys: &'a [&'a [u8]],
    /// The first argument begins with [`DEADLINE_BYTES`] that the link fills in.
    pub args: Vec<Vec<u8>>,
    /// When the caller stops waiting. The script gets it too, and does nothing if it runs later.
    pub deadline: Instant,
}

/// The node that a plain command is sent to.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// The node that owns this key.
    Key(&'a [u8]),
    /// This node.
    Node(&'a HostPort),
    /// Any node.
    Any,
}

/// How the script is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// By its hash: the usual case.
    Hash,
    /// As text, for a server that has not cached it.
    Text,
}

impl Call<'_> {
    /// The command. `deadline_us` is the deadline by the clock of the server that will run it.
    pub(super) fn command(&mut self, form: Form, deadline_us: f64) -> Cmd {
        if let Some(stamp) = self.args.first_mut().and_then(|arg| arg.first_chunk_mut::<DEADLINE_BYTES>()) {
            *stamp = deadline_us.to_be_bytes();
        }
        let (name, script) = match form {
            Form::Hash => ("EVALSHA", self.script.hash()),
            Form::Text => ("EVAL", self.script.text()),
        };
        let bytes = self.keys.iter().map(|key| key.len()).chain(self.args.iter().map(Vec::len)).sum::<usize>();
        let mut command = Cmd::with_capacity(3 + self.keys.len() + self.args.len(), script.len() + bytes + 16);
        command.arg(name).arg(script).arg(self.keys.len());
        for key in self.keys {
            command.arg(*key);
        }
        for arg in &self.args {
            command.arg(arg.as_slice());
        }
        command
    }
}

/// The server's time, which every reply of our scripts carries: seven bytes of a packed reply, or the second item of a list.
pub(super) fn time_in(answer: &Value) -> Option<Timestamp> {
    match answer {
        Value::BulkString(bytes) => {
            let micros = bytes.get(TIME_AT..TIME_AT + TIME_BYTES)?;
            Some(Timestamp::from_micros(micros.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))))
        }
        Value::Array(parts) => match parts.get(1)? {
            Value::Int(micros) => u64::try_from(*micros).ok().map(Timestamp::from_micros),
            _ => None,
        },
        _ => None,
    }
}

/// The first bytes of the first argument: the deadline as a big-endian double, in microseconds of the server's clock.
pub const DEADLINE_BYTES: usize = 8;
const TIME_AT: usize = 6;
const TIME_BYTES: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_carries_the_deadline() {
        let script = Script::new("return 1".into());
        let args = vec![b"\0\0\0\0\0\0\0\0rest".to_vec(), b"more".to_vec()];
        let mut call = Call { script: &script, keys: &[b"k1", b"k2"], args, deadline: Instant::now() };

        let words = |command: &Cmd| {
            let words = command.args_iter().map(|arg| match arg {
                redis::Arg::Simple(word) => word.to_vec(),
                _ => panic!("no cursor"),
            });
            words.collect::<Vec<_>>()
        };
        let by_hash = words(&call.command(Form::Hash, 1.5));
        let stamped = [1.5_f64.to_be_bytes().as_slice(), b"rest"].concat();
        // `printf 'return 1' | sha1sum`
        let hash = b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
        assert_eq!(by_hash, [b"EVALSHA".as_slice(), hash, b"2", b"k1", b"k2", &stamped, b"more"]);

        let in_full = words(&call.command(Form::Text, f64::INFINITY));
        assert_eq!(in_full[..2], [b"EVAL".to_vec(), b"return 1".to_vec()]);
        assert_eq!(in_full[5][..8], f64::INFINITY.to_be_bytes());
    }

    #[test]
    fn packed_and_list_replies_carry_the_time() {
        let packed = [b"header".as_slice(), &[0, 6, 0x5e, 0x01, 2, 3, 4], b"tail"].concat();
        assert_eq!(time_in(&Value::BulkString(packed)), Some(Timestamp::from_micros(0x0000_065e_0102_0304)));
        assert_eq!(time_in(&Value::Array(vec![Value::Nil, Value::Int(42)])), Some(Timestamp::from_micros(42)));
        for without_time in [Value::Nil, Value::BulkString(b"short".into()), Value::Array(vec![Value::Int(1)])] {
            assert_eq!(time_in(&without_time), None);
        }
    }
}
