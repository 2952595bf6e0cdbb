//! JSON primitives: strings, numbers and times appended to a buffer.
//!
//! Written by hand because `ratekeeper simulate` writes millions of lines; `core::fmt` would take longer than the rest of a
//! line.

use ratekeeper_core::Timestamp;

/// Appends bytes.
#[inline]
pub fn push(json: &mut Vec<u8>, bytes: &[u8]) {
    json.extend_from_slice(bytes);
}

/// Appends a field and its number. `field` includes the separator, as in `,"cost":`.
#[inline]
pub fn push_field(json: &mut Vec<u8>, field: &[u8], number: u64) {
    push(json, field);
    push_number(json, number);
}

/// Appends a field and a string that needs no escapes. `field` includes the opening quote, as in `,"op":"`.
#[inline]
pub fn push_word(json: &mut Vec<u8>, field: &[u8], word: &str) {
    push(json, field);
    push(json, word.as_bytes());
    json.push(b'"');
}

/// Appends text as a JSON string, quoted and escaped.
pub fn push_string(json: &mut Vec<u8>, text: &str) {
    json.push(b'"');
    if text.bytes().any(needs_escape) {
        for byte in text.bytes() {
            match byte {
                b'"' | b'\\' => push(json, &[b'\\', byte]),
                b'\n' => push(json, b"\\n"),
                b'\r' => push(json, b"\\r"),
                b'\t' => push(json, b"\\t"),
                0..0x20 => push(json, format!("\\u{byte:04x}").as_bytes()),
                _ => json.push(byte),
            }
        }
    } else {
        push(json, text.as_bytes());
    }
    json.push(b'"');
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Appends a number in decimal.
#[inline]
pub fn push_number(json: &mut Vec<u8>, mut number: u64) {
    let mut reversed = [0; 20];
    let mut start = reversed.len();
    loop {
        start -= 1;
        reversed[start] = digit(number % 10);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    push(json, &reversed[start..]);
}

/// Appends a time in milliseconds, with up to three decimals and no trailing zeros.
pub fn push_millis(json: &mut Vec<u8>, at: Timestamp) {
    push_number(json, at.as_micros() / 1_000);
    let mut fraction = at.as_micros() % 1_000;
    if fraction > 0 {
        json.push(b'.');
        let mut unit = 100;
        while fraction > 0 {
            json.push(digit(fraction / unit));
            fraction %= unit;
            unit /= 10;
        }
    }
}

#[inline]
fn digit(below_ten: u64) -> u8 {
    b'0' + u8::try_from(below_ten % 10).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A JSON parser returns any text unchanged.
    #[test]
    fn strings_survive_a_round_trip() {
        let mut text: String = (0..128u8).map(char::from).collect();
        text.push_str("žluťoučký 🦀 \u{2028}");
        let mut json = Vec::new();
        push_string(&mut json, &text);
        assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), text);
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 7, 10, 1_234_567_890, u64::MAX] {
            let mut json = Vec::new();
            push_number(&mut json, number);
            assert_eq!(json, number.to_string().into_bytes());
        }
    }

    #[test]
    fn times_have_no_trailing_zeros() {
        let written = |micros| {
            let mut json = Vec::new();
            push_millis(&mut json, Timestamp::from_micros(micros));
            String::from_utf8(json).unwrap()
        };
        assert_eq!([0, 1, 1_500, 10_000].map(written), ["0", "0.001", "1.5", "10"]);
    }
}
