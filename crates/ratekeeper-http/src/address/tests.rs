use http::{HeaderValue, header::FORWARDED};

use super::*;

const PEER: &str = "10.0.0.1";

fn find(config: &ClientAddress, lines: &[&[u8]]) -> String {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(config.header.clone(), HeaderValue::from_bytes(line).unwrap());
    }
    config.find(Some(PEER.parse().unwrap()), &headers).unwrap().to_string()
}

#[test]
fn header_fields_are_ignored_without_proxies() {
    assert_eq!(find(&ClientAddress::of_peer(), &[b"203.0.113.7"]), PEER);
}

#[test]
fn exactly_the_entries_of_trusted_proxies_are_read() {
    let chain: &[&[u8]] = &[b"6.6.6.6, 203.0.113.7, 10.0.0.2"];
    assert_eq!(find(&ClientAddress::behind(1), chain), "10.0.0.2");
    assert_eq!(find(&ClientAddress::behind(2), chain), "203.0.113.7");
}

#[test]
fn repeated_fields_are_one_list() {
    let lines: &[&[u8]] = &[b"6.6.6.6", b"203.0.113.7 ,10.0.0.2"];
    assert_eq!(find(&ClientAddress::behind(2), lines), "203.0.113.7");
    assert_eq!(find(&ClientAddress::behind(3), lines), "6.6.6.6");
}

#[test]
fn a_short_list_yields_the_last_reported_address() {
    assert_eq!(find(&ClientAddress::behind(3), &[b"203.0.113.7"]), "203.0.113.7");
    assert_eq!(find(&ClientAddress::behind(3), &[]), PEER);
}

#[test]
fn an_entry_that_is_no_address_yields_the_proxy_that_wrote_it() {
    for junk in
        [&b"unknown, 10.0.0.2"[..], b"_hidden, 10.0.0.2", b", 10.0.0.2", b"\xff\xfe, 10.0.0.2", b"1.2.3.4.5, 10.0.0.2"]
    {
        assert_eq!(find(&ClientAddress::behind(2), &[junk]), "10.0.0.2", "{}", junk.escape_ascii());
    }
    assert_eq!(find(&ClientAddress::behind(1), &[&[b'9'; 4096]]), PEER);
}

#[test]
fn ports_and_brackets_are_removed() {
    for (entry, address) in [
        (&b"203.0.113.7:4711"[..], "203.0.113.7"),
        (b"2001:db8::1", "2001:db8::1"),
        (b"[2001:db8::1]", "2001:db8::1"),
        (b"[2001:db8::1]:4711", "2001:db8::1"),
        (b"::ffff:203.0.113.7", "203.0.113.7"),
        (b"[::ffff:203.0.113.7]:80", "203.0.113.7"),
    ] {
        assert_eq!(find(&ClientAddress::behind(1), &[entry]), address);
    }
}

#[test]
fn forwarded_is_parsed_as_rfc_7239() {
    let forwarded = |proxies| ClientAddress::behind(proxies).header(FORWARDED);
    let chain: &[&[u8]] = &[br#"for=6.6.6.6, proto=https;For="[2001:db8::1]:4711";by=_us, for=10.0.0.2;host=a"#];
    assert_eq!(find(&forwarded(1), chain), "10.0.0.2");
    assert_eq!(find(&forwarded(2), chain), "2001:db8::1");
    assert_eq!(find(&forwarded(3), chain), "6.6.6.6");
    assert_eq!(find(&forwarded(1), &[b"by=10.0.0.9"]), PEER);
    assert_eq!(find(&forwarded(1), &[b"for=1.1.1.1;for=2.2.2.2"]), PEER);
}

#[test]
fn a_forged_open_quote_does_not_hide_the_proxys_entry() {
    let config = ClientAddress::behind(1).header(FORWARDED);
    assert_eq!(find(&config, &[br#"for="6.6.6.6, for=203.0.113.7"#]), "203.0.113.7");
    assert_eq!(find(&config, &[br#"for="a,b";x="", for="203.0.113.7""#]), "203.0.113.7");
}

#[test]
fn addresses_of_one_subnet_share_a_key() {
    let key = |address: &str| ClientAddress::of_peer().key_of(address.parse().unwrap());
    assert_eq!(key("2001:db8:0:1::17"), "2001:db8:0:1::/64");
    assert_eq!(key("2001:db8:0:1:ffff::"), "2001:db8:0:1::/64");
    assert_ne!(key("2001:db8:0:2::17"), key("2001:db8:0:1::17"));
    assert_eq!(key("203.0.113.7"), "203.0.113.7");
    assert_eq!(key("::ffff:203.0.113.7"), "203.0.113.7");
}

#[test]
fn the_ipv6_prefix_is_configurable() {
    let key = |bits| ClientAddress::of_peer().ipv6_prefix(bits).key_of("2001:db8:1:2::17".parse().unwrap());
    assert_eq!(key(128), "2001:db8:1:2::17");
    assert_eq!(key(200), "2001:db8:1:2::17");
    assert_eq!(key(48), "2001:db8:1::/48");
    assert_eq!(key(0), "::/0");
}

/// Random bytes from the client, followed by the entry of the trusted proxy: the result is always the proxy's entry.
#[test]
fn a_client_cannot_choose_its_address() {
    let mut random = ratekeeper_testkit::random::Random::new(7);
    let alphabet = br#"0123456789abcdef:.,;"\[]= for_unkow"#;
    for header in [X_FORWARDED_FOR, FORWARDED] {
        let config = ClientAddress::behind(1).header(header.clone());
        for _ in 0..20_000 {
            let length = random.below(60);
            let mut line: Vec<u8> = (0..length).map(|_| random.pick(alphabet)).collect();
            line.extend_from_slice(if header == FORWARDED { b", for=203.0.113.7" } else { b", 203.0.113.7" });
            assert_eq!(find(&config, &[&line]), "203.0.113.7", "{}", line.escape_ascii());
        }
    }
}
