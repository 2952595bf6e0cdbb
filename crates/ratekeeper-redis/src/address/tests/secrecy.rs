//! What precedes the last `@` of an address is in no error, no `Debug` and no `Display`.

use ratekeeper_testkit::random::Random;

use super::*;

/// Everything this crate ever shows of an address.
fn shown(text: &str) -> String {
    match Address::parse(text) {
        Ok(address) => {
            format!("{address} {address:?} {:?} {:?} {:?}", address.credentials, address.topology, address.tls)
        }
        Err(error) => format!("{error} {error:?}"),
    }
}

#[test]
fn no_refusal_repeats_a_password() {
    let cases = [
        "S3cret",
        "S3cret://u@h",
        "redis:S3cret@h",
        "redis://u:S3cret/rest@h",
        "redis://u:S3cret?rest@h",
        "redis://u:1/S3cret@h",
        "redis://u:1/0?S3cret@h",
        "redis://u:1/0?ca=S3cret@h",
        "redis://u:1/%53S3cret@h",
        "redis+sentinel://u:S3cret/rest@h/name",
        "redis+sentinel://u:1/S3cret@h",
        "redis+sentinel://h/name?sentinel_user=S3cret",
        "redis+sentinel://h/name?sentinel_password=a&S3cret",
        "redis+cluster://u:S3cret/rest@a,b",
        "redis+cluster://u:1/S3cret@a,b",
        "redis+cluster://u:1,S3cret@a,b:x",
        "redis://S3cret@h",
        "redis://u:S3cret@",
        "redis://u:S3cret@h:x",
        "redis://u:S3cret%@h",
        "redis://:S3cret@h/x",
        // The host is forgotten.
        "redis://u:S3cret",
        "redis://:S3cret",
        "redis+cluster://u:S3cret,b",
    ];
    for text in cases {
        let message = refusal(text);
        assert!(!shown(text).contains("S3cret"), "{text}: {message}");
    }
}

/// Random secrets of reserved and rare characters, addresses mutated in random places: no four characters in a row of
/// what precedes the last `@` are shown.
#[test]
fn nothing_before_the_last_at_sign_is_shown() {
    let mut random = Random::new(4);
    let mut read_well = 0;
    for _ in 0..60_000 {
        let mut text: Vec<char> = random.pick(SCHEMES).chars().collect();
        text.extend((0..4 + random.below(12)).map(|_| random.pick(SIGNS)));
        text.push('@');
        text.extend(random.pick(TAILS).chars());
        for _ in 0..random.below(3) {
            let place = usize::try_from(random.below(text.len() as u64)).unwrap();
            match random.below(3) {
                0 => drop(text.remove(place)),
                1 => text.insert(place, random.pick(SIGNS)),
                _ => text[place] = random.pick(SIGNS),
            }
        }
        let Some(at) = text.iter().rposition(|c| *c == '@') else { continue };
        let text_again: String = text.iter().collect();
        let shown = shown(&text_again);
        read_well += u32::from(Address::parse(&text_again).is_ok());
        for window in text[..at].windows(4).filter(|window| window.iter().any(|c| RARE.contains(c))) {
            let window: String = window.iter().collect();
            assert!(!shown.contains(&window), "{window:?} of {text_again:?} is in {shown:?}");
        }
    }
    assert!(read_well > 1_000, "only {read_well} addresses could be read");
}

const SCHEMES: &[&str] = &[
    "redis://u:",
    "redis://",
    "rediss://:",
    "redis+sentinel://u:",
    "redis+cluster://u:1",
    "redis://u:1/",
    "redis+sentinel://u:1/",
    "redis://h?ca=",
    "ZQXZ://",
    "",
];
/// Characters of a secret. The rare ones are in no message of ours.
const SIGNS: &[char] =
    &['Q', 'Z', 'X', 'ß', 'Q', 'Z', 'X', 'ß', '/', '?', '@', ':', '%', '&', '=', ',', '[', ']', '#', '"', ' ', '1'];
const RARE: &[char] = &['Q', 'Z', 'X', 'ß'];
const TAILS: &[&str] =
    &["h", "h:1", "h/0", "h/one", "a,b", "h/name", "h/name/2?sentinel_password=x", "", "h:x", "h?no"];
