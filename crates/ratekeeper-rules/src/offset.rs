//! UTC offsets in rule files: `+02:00`, `-03:30`, `Z`.

use ratekeeper_core::UtcOffset;

/// Parses an offset. The error completes the sentence "utc_offset is …, ".
pub(crate) fn parse(word: &str) -> Result<UtcOffset, String> {
    if word == "Z" || word == "UTC" {
        return Ok(UtcOffset::UTC);
    }
    let minutes = minutes(word).ok_or("which is no offset; use one such as +02:00, -03:30 or Z")?;
    if minutes.abs() > UtcOffset::MAX_MINUTES {
        return Err("further than any clock on Earth; use -18:00 to +18:00".to_owned());
    }
    Ok(UtcOffset::minutes(minutes))
}

fn minutes(word: &str) -> Option<i32> {
    let sign = match word.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = word[1..].split_once(':')?;
    let two_digits = |part: &str| match part.as_bytes() {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Some(i32::from(tens - b'0') * 10 + i32::from(ones - b'0')),
        _ => None,
    };
    let minutes = two_digits(minutes).filter(|minutes| *minutes < 60)?;
    Some(sign * (two_digits(hours)? * 60 + minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read() {
        assert_eq!(parse("+02:00"), Ok(UtcOffset::hours(2)));
        assert_eq!(parse("-03:30"), Ok(UtcOffset::minutes(-210)));
        assert_eq!(parse("Z"), Ok(UtcOffset::UTC));
        assert_eq!(parse(&UtcOffset::minutes(345).to_string()), Ok(UtcOffset::minutes(345)));
    }

    #[test]
    fn anything_else_is_refused() {
        for word in ["", "2", "+2", "+2:00", "02:00", "+02:60", "+02:0", "+0200", "+é:00", "Europe/Berlin"] {
            assert!(parse(word).unwrap_err().contains("no offset"), "{word}");
        }
        assert!(parse("+19:00").unwrap_err().contains("Earth"));
    }
}
