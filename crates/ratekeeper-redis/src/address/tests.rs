use super::*;

/// As in a build with TLS.
fn read(text: &str) -> Address {
    parse::parse(text).unwrap()
}

fn refusal(text: &str) -> String {
    Address::parse(text).unwrap_err().to_string()
}

#[test]
fn the_shortest_address_takes_every_default() {
    let address = read("redis://localhost");
    assert_eq!(address.topology, Topology::Standalone(HostPort::new("localhost", 6379)));
    assert_eq!((address.credentials, address.database, address.tls), (Credentials::default(), 0, None));
}

#[test]
fn everything_a_single_server_may_need_is_read() {
    let address = read("rediss://rk%3A1:p%40ss:w%2Ford@[::1]:7000/3?ca=/etc/ca.pem&cert=c.pem&key=k%20.pem");
    assert_eq!(address.topology, Topology::Standalone(HostPort::new("::1", 7000)));
    assert_eq!(address.credentials.user.as_deref(), Some("rk:1"));
    assert_eq!(address.credentials.password.as_deref(), Some("p@ss:w/ord"));
    assert_eq!(address.database, 3);
    let identity = Identity { cert: "c.pem".into(), key: "k .pem".into() };
    assert_eq!(address.tls, Some(TlsFiles { ca: Some("/etc/ca.pem".into()), identity: Some(identity) }));
}

#[test]
fn a_password_may_stand_without_a_user_and_keep_its_at_signs() {
    let address = read("redis://:a@b@host");
    assert_eq!(address.credentials, Credentials { user: None, password: Some("a@b".into()) });
}

#[test]
fn sentinels_have_a_name_to_ask_for_and_a_login_of_their_own() {
    let address = read("redis+sentinel://app:pw@s1,s2:26380/mymaster/2?sentinel_user=watch&sentinel_password=s%26cret");
    let Topology::Sentinel { sentinels, primary_name, credentials } = address.topology else { panic!() };
    assert_eq!(sentinels, [HostPort::new("s1", 26379), HostPort::new("s2", 26380)]);
    assert_eq!((primary_name.as_str(), address.database), ("mymaster", 2));
    assert_eq!(credentials.user.as_deref(), Some("watch"));
    assert_eq!(credentials.password.as_deref(), Some("s&cret"));
    assert_eq!(address.credentials.password.as_deref(), Some("pw"));
}

#[test]
fn a_cluster_takes_several_hosts_of_every_kind() {
    let address = read("rediss+cluster://10.0.0.1:7000,node-2,[2001:db8::3]:7002");
    let seeds =
        vec![HostPort::new("10.0.0.1", 7000), HostPort::new("node-2", 6379), HostPort::new("2001:db8::3", 7002)];
    assert_eq!(address.topology, Topology::Cluster { seeds });
    assert!(address.tls.is_some());
}

#[test]
fn what_is_shown_can_be_read_again_and_has_no_password() {
    let texts = [
        "redis://host:6379",
        "rediss://app:hunter2@host:6379/4",
        "redis+sentinel://app:hunter2@a:1,b:2/mymaster?sentinel_password=hunter2",
        "rediss+cluster://:hunter2@[::1]:7000,b:7001",
    ];
    for text in texts {
        let address = read(text);
        let shown = format!("{address} {address:?} {:?} {:?}", address.credentials, address.topology);
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    assert_eq!(read(texts[1]).to_string(), "rediss://host:6379/4");
    assert_eq!(read(texts[2]).to_string(), "redis+sentinel://a:1,b:2/mymaster");
    assert_eq!(read(texts[3]).to_string(), "rediss+cluster://[::1]:7000,b:7001");
}

#[test]
fn a_refusal_names_what_was_found_and_what_would_do() {
    let cases = [
        ("localhost:6379", "redis://"),
        ("redis://u:pw/rest@h", "%2F"),
        ("redis+sentinel://h/name?sentinel_password=a@b", "%40"),
        ("http://localhost", "\"http://\""),
        ("redis://", "no host"),
        ("redis://user:pw@", "no host"),
        ("redis://host:0", "\"host:0\""),
        ("redis://host:port", "[::1]:6379"),
        ("redis://::1", "[::1]:6379"),
        ("redis://[1.2.3.4]", "host and port"),
        ("redis://a,b", "redis+cluster://"),
        ("redis://host/one", "\"one\""),
        ("redis://host/+1", "\"+1\""),
        ("redis://host/1/2", "\"/2\""),
        ("redis+cluster://host/1", "\"/1\""),
        ("redis+sentinel://host", "mymaster"),
        ("redis+sentinel://host//1", "mymaster"),
        ("redis://host?timeout=1", "\"timeout\""),
        ("rediss://host?ca=a&ca=b", "twice"),
        ("redis://host?ca=a", "rediss://"),
        ("rediss://host?cert=a", "key=FILE"),
        ("rediss://host?key=a", "cert=FILE"),
        ("redis://host?sentinel_password=a", "redis+sentinel://"),
        ("redis://user@host", "user:password@host"),
        ("redis://:p%4@host", "the password"),
        ("redis://:p%FF@host", "%25"),
    ];
    for (text, words) in cases {
        let message = refusal(text);
        assert!(message.contains(words), "{text}: {message}");
    }
}

/// Without the feature `tls` a TLS address is refused when it is read, with the remedy.
#[test]
fn tls_needs_its_feature() {
    for text in ["rediss://host", "rediss+sentinel://host/name", "rediss+cluster://host?ca=a.pem"] {
        let parsed = Address::parse(text);
        assert_eq!(parsed.is_ok(), cfg!(feature = "tls"), "{text}");
        if let Err(error) = parsed {
            assert_eq!(error, AddressError::NoTls, "{text}");
            assert!(error.to_string().contains("\"redis-tls\" of ratekeeper"), "{error}");
        }
    }
}

#[test]
fn a_redirect_may_leave_out_the_host_and_the_brackets() {
    let sender = HostPort::new("10.0.0.1", 7000);
    let read = |text| HostPort::from_redirect(text, &sender).map(|place| place.to_string());
    assert_eq!(read("10.0.0.2:7001").as_deref(), Some("10.0.0.2:7001"));
    assert_eq!(read(":7001").as_deref(), Some("10.0.0.1:7001"));
    assert_eq!(read("2001:db8::1:7001").as_deref(), Some("[2001:db8::1]:7001"));
    assert_eq!(read("nowhere"), None);
    assert_eq!(read("host:0"), None);
}

mod secrecy;
