use http::{HeaderValue, header::FORWARDED};

use super::*;

const PEER: &str = "10.0.0.1";

fn found(trusting: &ClientAddress, lines: &[&[u8]]) -> String {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(trusting.header.clone(), HeaderValue::from_bytes(line).unwrap());
    }
    trusting.find(Some(PEER.parse().unwrap()), &headers).unwrap().to_string()
}

#[test]
fn without_proxies_headers_say_nothing() {
    assert_eq!(found(&ClientAddress::of_peer(), &[b"203.0.113.7"]), PEER);
}

#[test]
fn exactly_the_trusted_hops_are_walked_back() {
    let chain: &[&[u8]] = &[b"6.6.6.6, 203.0.113.7, 10.0.0.2"];
    assert_eq!(found(&ClientAddress::behind(1), chain), "10.0.0.2");
    assert_eq!(found(&ClientAddress::behind(2), chain), "203.0.113.7");
}

#[test]
fn several_lines_are_one_list() {
    let lines: &[&[u8]] = &[b"6.6.6.6", b"203.0.113.7 ,10.0.0.2"];
    assert_eq!(found(&ClientAddress::behind(2), lines), "203.0.113.7");
    assert_eq!(found(&ClientAddress::behind(3), lines), "6.6.6.6");
}

#[test]
fn a_short_chain_ends_with_the_last_address_a_proxy_vouched_for() {
    assert_eq!(found(&ClientAddress::behind(3), &[b"203.0.113.7"]), "203.0.113.7");
    assert_eq!(found(&ClientAddress::behind(3), &[]), PEER);
}

#[test]
fn an_entry_that_is_no_address_is_answered_for_by_the_proxy_that_wrote_it() {
    for junk in
        [&b"unknown, 10.0.0.2"[..], b"_hidden, 10.0.0.2", b", 10.0.0.2", b"\xff\xfe, 10.0.0.2", b"1.2.3.4.5, 10.0.0.2"]
    {
        assert_eq!(found(&ClientAddress::behind(2), &[junk]), "10.0.0.2", "{}", junk.escape_ascii());
    }
    assert_eq!(found(&ClientAddress::behind(1), &[&[b'9'; 4096]]), PEER);
}

#[test]
fn ports_and_brackets_are_put_aside() {
    for (entry, address) in [
        (&b"203.0.113.7:4711"[..], "203.0.113.7"),
        (b"2001:db8::1", "2001:db8::1"),
        (b"[2001:db8::1]", "2001:db8::1"),
        (b"[2001:db8::1]:4711", "2001:db8::1"),
        (b"::ffff:203.0.113.7", "203.0.113.7"),
        (b"[::ffff:203.0.113.7]:80", "203.0.113.7"),
    ] {
        assert_eq!(found(&ClientAddress::behind(1), &[entry]), address);
    }
}

#[test]
fn the_standard_header_is_read_in_its_own_form() {
    let trusting = |hops| ClientAddress::behind(hops).header(FORWARDED);
    let chain: &[&[u8]] = &[br#"for=6.6.6.6, proto=https;For="[2001:db8::1]:4711";by=_us, for=10.0.0.2;host=a"#];
    assert_eq!(found(&trusting(1), chain), "10.0.0.2");
    assert_eq!(found(&trusting(2), chain), "2001:db8::1");
    assert_eq!(found(&trusting(3), chain), "6.6.6.6");
    assert_eq!(found(&trusting(1), &[b"by=10.0.0.9"]), PEER);
    assert_eq!(found(&trusting(1), &[b"for=1.1.1.1;for=2.2.2.2"]), PEER);
}

#[test]
fn a_quote_left_open_by_a_stranger_hides_nothing_a_proxy_wrote() {
    let trusting = ClientAddress::behind(1).header(FORWARDED);
    assert_eq!(found(&trusting, &[br#"for="6.6.6.6, for=203.0.113.7"#]), "203.0.113.7");
    assert_eq!(found(&trusting, &[br#"for="a,b";x="", for="203.0.113.7""#]), "203.0.113.7");
}

#[test]
fn neighbours_in_one_subnet_share_a_key() {
    let key = |address: &str| ClientAddress::of_peer().key_of(address.parse().unwrap());
    assert_eq!(key("2001:db8:0:1::17"), "2001:db8:0:1::/64");
    assert_eq!(key("2001:db8:0:1:ffff::"), "2001:db8:0:1::/64");
    assert_ne!(key("2001:db8:0:2::17"), key("2001:db8:0:1::17"));
    assert_eq!(key("203.0.113.7"), "203.0.113.7");
    assert_eq!(key("::ffff:203.0.113.7"), "203.0.113.7");
}

#[test]
fn the_prefix_can_be_chosen() {
    let key = |bits| ClientAddress::of_peer().ipv6_prefix(bits).key_of("2001:db8:1:2::17".parse().unwrap());
    assert_eq!(key(128), "2001:db8:1:2::17");
    assert_eq!(key(200), "2001:db8:1:2::17");
    assert_eq!(key(48), "2001:db8:1::/48");
    assert_eq!(key(0), "::/0");
}

/// Whatever a client writes, as long as the proxy's own entry stands at the right end: the client cannot choose its key.
#[test]
fn a_client_cannot_choose_its_own_address() {
    let mut random = tollgate_testkit::random::Random::new(7);
    let alphabet = br#"0123456789abcdef:.,;"\[]= for_unkow"#;
    for header in [X_FORWARDED_FOR, FORWARDED] {
        let trusting = ClientAddress::behind(1).header(header.clone());
        for _ in 0..20_000 {
            let length = random.below(60);
            let mut line: Vec<u8> = (0..length).map(|_| random.pick(alphabet)).collect();
            line.extend_from_slice(if header == FORWARDED { b", for=203.0.113.7" } else { b", 203.0.113.7" });
            assert_eq!(found(&trusting, &[&line]), "203.0.113.7", "{}", line.escape_ascii());
        }
    }
}
