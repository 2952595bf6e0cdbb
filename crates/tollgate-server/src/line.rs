//! A decision as JSON: the fields that `tollgate simulate` writes and `POST /v1/check` answers, in that order.
//!
//! Written by hand, because millions of lines are; the field order is part of the contract.

use tollgate_core::{DecidedBy, Decision, Micros, RuleDecision};

/// Appends `"verdict":…` up to the end of `"rules":[…]`, without braces around. `push_name` appends the name of the
/// rule at a position, as a JSON string.
#[inline]
pub fn push_decision(line: &mut Vec<u8>, decision: &Decision, push_name: impl Fn(&mut Vec<u8>, usize)) {
    push_word(line, b"\"verdict\":\"", decision.verdict.name());
    push_field(line, b",\"wait_us\":", decision.wait().0);
    push_retry(line, decision.retry_after());
    push_field(line, b",\"remaining\":", decision.remaining());
    push_field(line, b",\"limit\":", decision.limit());
    push_field(line, b",\"reset_after_us\":", decision.reset_after().0);
    push(line, b",\"decided_by\":");
    match decision.decided_by {
        DecidedBy::Rule(index) => push_name(line, index),
        DecidedBy::Block => push(line, b"\"block\""),
        DecidedBy::Nothing => push(line, b"null"),
    }
    push(line, b",\"rules\":[");
    for (index, rule) in decision.rules.iter().enumerate() {
        if index > 0 {
            line.push(b',');
        }
        push(line, b"{\"name\":");
        push_name(line, index);
        push_rule(line, rule);
    }
    line.push(b']');
}

#[inline]
fn push_rule(line: &mut Vec<u8>, rule: &RuleDecision) {
    push_word(line, b",\"verdict\":\"", rule.verdict.name());
    push_field(line, b",\"remaining\":", rule.remaining);
    push_field(line, b",\"limit\":", rule.limit);
    push_retry(line, rule.verdict.retry_after());
    push_field(line, b",\"reset_after_us\":", rule.reset_after.0);
    push(line, if rule.shadow { b",\"shadow\":true}" } else { b"}" });
}

/// Appends bytes.
#[inline]
pub fn push(line: &mut Vec<u8>, bytes: &[u8]) {
    line.extend_from_slice(bytes);
}

/// Appends a field and its number.
#[inline]
pub fn push_field(line: &mut Vec<u8>, field: &[u8], number: u64) {
    push(line, field);
    push_number(line, number);
}

/// Appends a field and its word. The field brings the opening quote; words of ours need no escapes.
#[inline]
pub fn push_word(line: &mut Vec<u8>, field: &[u8], word: &str) {
    push(line, field);
    push(line, word.as_bytes());
    line.push(b'"');
}

#[inline]
fn push_retry(line: &mut Vec<u8>, retry_after: Option<Micros>) {
    match retry_after {
        Some(wait) => push_field(line, b",\"retry_after_us\":", wait.0),
        None => push(line, b",\"retry_after_us\":null"),
    }
}

/// Appends text as a JSON string.
pub fn push_text(line: &mut Vec<u8>, text: &str) {
    line.push(b'"');
    if text.bytes().any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        for byte in text.bytes() {
            match byte {
                b'"' | b'\\' => push(line, &[b'\\', byte]),
                b'\n' => push(line, b"\\n"),
                b'\r' => push(line, b"\\r"),
                b'\t' => push(line, b"\\t"),
                0..0x20 => push(line, format!("\\u{byte:04x}").as_bytes()),
                _ => line.push(byte),
            }
        }
    } else {
        push(line, text.as_bytes());
    }
    line.push(b'"');
}

/// Appends a time in milliseconds, with no more decimals than it needs.
pub fn push_millis(line: &mut Vec<u8>, at: Micros) {
    push_number(line, at.0 / 1_000);
    let mut below = at.0 % 1_000;
    if below > 0 {
        line.push(b'.');
        let mut place = 100;
        while below > 0 {
            line.push(digit(below / place));
            below %= place;
            place /= 10;
        }
    }
}

/// Appends a number. Formatting machinery would take longer than everything else about a line.
#[inline]
pub fn push_number(line: &mut Vec<u8>, mut number: u64) {
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
    line.extend_from_slice(&reversed[start..]);
}

#[inline]
fn digit(below_ten: u64) -> u8 {
    b'0' + u8::try_from(below_ten % 10).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a key holds, a JSON reader gets it back.
    #[test]
    fn text_survives_a_json_reader() {
        let mut every_ascii: String = (0..128u8).map(char::from).collect();
        every_ascii.push_str("žluťoučký 🦀 \u{2028}");
        let mut line = Vec::new();
        push_text(&mut line, &every_ascii);
        let back: String = serde_json::from_slice(&line).unwrap_or_default();
        assert_eq!(back, every_ascii);
    }

    #[test]
    fn times_have_no_more_decimals_than_they_need() {
        let told = |micros| {
            let mut line = Vec::new();
            push_millis(&mut line, Micros(micros));
            String::from_utf8(line).unwrap_or_default()
        };
        assert_eq!(
            (told(0), told(1), told(1_500), told(10_000)),
            ("0".into(), "0.001".into(), "1.5".into(), "10".into())
        );
    }
}
