//! Log output: standard error, as text or JSON.
//!
//! The log contains untrusted text, such as names of domains and messages of other servers. Characters that reorder or hide
//! text ([`ratekeeper_server::lossy_text`]) are escaped: as `\\u{202e}` in text, as `\\u202e` in JSON.

use std::io::{self, Write};

use ratekeeper_server::lossy_text::is_hidden;
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        self,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
};

use super::args::{LogFormat, ServeArgs};
use crate::report::Failure;

pub(super) fn start(args: &ServeArgs) -> Result<(), Failure> {
    let filter = filter(&args.log).map_err(|error| {
        Failure::Option(format!("--log {}: {error}; use error, warn, info or debug", args.log.escape_debug()))
    })?;
    let format = args.log_format;
    let lines = fmt::fmt().with_env_filter(filter).with_target(false);
    let lines = lines.with_writer(move || Escaping { out: io::stderr(), format });
    match format {
        LogFormat::Text => lines.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Silences warnings of h2 unless the filter names it: h2 logs every connection that it closes for abuse, so that peers could
/// flood the log. The server counts these connections and logs the count once a minute.
fn filter(log: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    if log.contains("h2") { EnvFilter::try_new(log) } else { EnvFilter::try_new(format!("{log},h2=error")) }
}

/// The current time, in the format of the log.
pub(super) fn timestamp() -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

/// A writer of whole lines that escapes format characters outside ASCII. Control characters of ASCII are the formatter's:
/// colours and line feeds.
struct Escaping<W> {
    out: W,
    format: LogFormat,
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        if text.is_ascii() {
            self.out.write_all(bytes)?;
        } else {
            self.out.write_all(escaped(&text, self.format).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn escaped(line: &str, format: LogFormat) -> String {
    let mut escaped = String::with_capacity(line.len() + 16);
    for letter in line.chars() {
        match format {
            _ if letter.is_ascii() || !is_hidden(letter) => escaped.push(letter),
            LogFormat::Text => escaped.extend(letter.escape_unicode()),
            // Characters outside ASCII occur only in JSON strings, where any of them may be escaped.
            LogFormat::Json => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    escaped.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &str, format: LogFormat) -> String {
        let mut out = Vec::new();
        Escaping { out: &mut out, format }.write_all(line.as_bytes()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_format_character_is_escaped_and_json_stays_the_same_text() {
        for letter in ('\u{80}'..=char::MAX).filter(|letter| is_hidden(*letter)) {
            let line = format!("a{letter}b\n");
            assert_eq!(written(&line, LogFormat::Text), format!("a{}b\n", letter.escape_unicode()));
            let json = serde_json::json!({ "message": format!("a{letter}b") });
            let line = written(&json.to_string(), LogFormat::Json);
            assert!(line.is_ascii(), "{line}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), json);
        }
        for plain in ["plain\n", "\u{1b}[33mcoloured\u{1b}[0m ü €\n"] {
            assert_eq!(written(plain, LogFormat::Text), plain);
        }
    }
}
