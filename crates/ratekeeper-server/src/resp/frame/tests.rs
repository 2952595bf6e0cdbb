use super::*;

/// The words of a command, and its length in bytes.
type Parsed = (Vec<Vec<u8>>, usize);

fn words(bytes: &[u8]) -> Result<Option<Parsed>, Malformed> {
    let mut words = Words::default();
    let taken = read(bytes, &mut words)?;
    Ok(taken.map(|taken| ((0..words.count()).map(|index| words.of(bytes, index).to_vec()).collect(), taken)))
}

fn expected(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn an_array_is_read_to_its_end_and_no_further() {
    let two = b"*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nPING\r\n";
    assert_eq!(words(two), Ok(Some((expected(&["ECHO", "a\r\nb"]), 24))));
    assert_eq!(words(&two[24..]), Ok(Some((expected(&["PING"]), 14))));
}

#[test]
fn a_line_is_split_at_blanks_and_quotes_keep_them() {
    assert_eq!(words(b"PING\r\n"), Ok(Some((expected(&["PING"]), 6))));
    assert_eq!(words(b"  ECHO\t'a b'  \"\" \n"), Ok(Some((expected(&["ECHO", "a b", ""]), 18))));
    for unclear in [&b"ECHO \"a\n"[..], b"ECHO 'a'b\n", b"ECHO \"a\\nb\"\n"] {
        assert_eq!(words(unclear), Err(Malformed::Quotes), "{}", unclear.escape_ascii());
    }
}

#[test]
fn frames_without_words_are_no_command() {
    for empty in [&b"\r\n"[..], b"\n", b"   \r\n", b"*0\r\n", b"*-1\r\n", b"*-9\r\n"] {
        assert_eq!(words(empty), Ok(Some((vec![], empty.len()))), "{}", empty.escape_ascii());
    }
}

/// A frame cut at any byte is incomplete, never an error or a shorter command.
#[test]
fn every_beginning_of_a_frame_is_incomplete() {
    for frame in
        [&b"*3\r\n$8\r\nRK.CHECK\r\n$0\r\n\r\n$12\r\n\r\n*1\r\n$4\r\nPI\r\n"[..], b"CL.THROTTLE 'a b' 1 2 3\r\n"]
    {
        assert!(matches!(words(frame), Ok(Some((_, taken))) if taken == frame.len()), "{}", frame.escape_ascii());
        for end in 0..frame.len() {
            assert_eq!(words(&frame[..end]), Ok(None), "{}", frame[..end].escape_ascii());
        }
    }
}

#[test]
fn a_protocol_error_is_reported_at_its_first_byte() {
    let cases: [(&[u8], Malformed); 14] = [
        (b"*x", Malformed::NotANumber),
        (b"*-\r", Malformed::NotANumber),
        (b"*\r", Malformed::NotANumber),
        (b"*1\n", Malformed::NotANumber),
        (b"*1\rx", Malformed::NotANumber),
        (b"*99999999999", Malformed::NotANumber),
        (b"*65\r\n", Malformed::TooManyWords),
        (b"*1\r\n:", Malformed::NotABulkString(b':')),
        (b"*1\r\n*", Malformed::NotABulkString(b'*')),
        (b"*1\r\n$-1\r\n", Malformed::TooLong),
        (b"*1\r\n$1048576\r\n", Malformed::TooLong),
        (b"*1\r\n$9999999999\r\n", Malformed::TooLong),
        (b"*1\r\n$65530\r\n", Malformed::FrameTooLong),
        (b"*1\r\n$1\r\nab\r\n", Malformed::NoLineEnd),
    ];
    for (bytes, expected) in cases {
        assert_eq!(words(bytes), Err(expected), "{}", bytes.escape_ascii());
    }
}

#[test]
fn the_bounds_are_exact() {
    let of_words = |count: usize| format!("*{count}\r\n{}", "$1\r\na\r\n".repeat(count));
    assert!(matches!(words(of_words(64).as_bytes()), Ok(Some((words, _))) if words.len() == 64));
    assert_eq!(words(of_words(65).as_bytes()), Err(Malformed::TooManyWords));
    assert_eq!(words(format!("{}\n", "a ".repeat(65)).as_bytes()), Err(Malformed::TooManyWords));

    let line = |length: usize| format!("{}\n", "a".repeat(length - 1));
    assert!(matches!(words(line(MAX_LINE_BYTES).as_bytes()), Ok(Some(_))));
    assert_eq!(words(line(MAX_LINE_BYTES + 1).as_bytes()), Err(Malformed::LineTooLong));
    assert_eq!(words("a".repeat(MAX_LINE_BYTES).as_bytes()), Err(Malformed::LineTooLong));

    // "*2\r\n" and twice "$12345\r\n" and CR LF are 24 bytes; both lengths have five digits.
    let of_bytes = |length: usize| {
        let word = |length: usize| format!("${length}\r\n{}\r\n", "a".repeat(length));
        format!("*2\r\n{}{}", word(30_000), word(length - 24 - 30_000))
    };
    let longest = of_bytes(MAX_FRAME_BYTES);
    assert_eq!(longest.len(), MAX_FRAME_BYTES);
    assert!(matches!(words(longest.as_bytes()), Ok(Some(_))));
    assert_eq!(words(of_bytes(MAX_FRAME_BYTES + 1).as_bytes()), Err(Malformed::FrameTooLong));
}
