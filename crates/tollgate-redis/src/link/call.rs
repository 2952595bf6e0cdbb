//! A call of a script, and the words it is put in.

use std::time::Instant;

use redis::{Cmd, Value};
use tollgate_core::Micros;

use super::script::Script;

/// One script call: what to run, on which keys, with what, and until when it is of use.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'a Script,
    /// All in one slot; the first says which node is asked.
    pub(crate) keys: &'a [&'a [u8]],
    /// The first begins with [`DEADLINE_BYTES`] that the link fills in.
    pub(crate) args: Vec<Vec<u8>>,
    /// When the caller stops waiting. Also told to the script, which charges nothing when it runs later than that.
    pub(crate) deadline: Instant,
}

/// How a script is named to the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// By its hash: the usual case.
    Hash,
    /// In full, for a server that has not seen it since it started.
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

/// The time that every answer of our scripts carries: seven bytes of a packed one, or the second of a list.
pub(super) fn time_in(answer: &Value) -> Option<Micros> {
    match answer {
        Value::BulkString(bytes) => {
            let micros = bytes.get(TIME_AT..TIME_AT + TIME_BYTES)?;
            Some(Micros(micros.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))))
        }
        Value::Array(parts) => match parts.get(1)? {
            Value::Int(micros) => u64::try_from(*micros).ok().map(Micros),
            _ => None,
        },
        _ => None,
    }
}

/// The first bytes of the first argument: the deadline as a big-endian double, in microseconds of the server's clock.
pub(crate) const DEADLINE_BYTES: usize = 8;
const TIME_AT: usize = 6;
const TIME_BYTES: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_put_in_words_with_its_deadline() {
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
    fn both_kinds_of_answers_tell_the_time() {
        let packed = [b"header".as_slice(), &[0, 6, 0x5e, 0x01, 2, 3, 4], b"tail"].concat();
        assert_eq!(time_in(&Value::BulkString(packed)), Some(Micros(0x0000_065e_0102_0304)));
        assert_eq!(time_in(&Value::Array(vec![Value::Nil, Value::Int(42)])), Some(Micros(42)));
        for silent in [Value::Nil, Value::BulkString(b"short".into()), Value::Array(vec![Value::Int(1)])] {
            assert_eq!(time_in(&silent), None);
        }
    }
}
