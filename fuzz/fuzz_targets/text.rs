//! Small hand-written parsers: token files, `--auth-entry`, `X-Forwarded-For` and `Forwarded`, `Retry-After`. Each gets the
//! same input.
#![no_main]

use std::time::UNIX_EPOCH;

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use ratekeeper_http::{ClientAddress, address::X_FORWARDED_FOR};
use ratekeeper_server::{config::parse_entry, security::Tokens};
use ratekeeper_tower::client::retry_after;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        if let Err(error) = Tokens::parse("tokens", text) {
            assert!(error.to_string().starts_with("tokens:"));
        }
        let _ = parse_entry(text);
    }
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        let Ok(value) = HeaderValue::from_bytes(line) else { continue };
        for name in ["forwarded", "retry-after", "date", X_FORWARDED_FOR.as_str()] {
            let name: http::HeaderName = name.parse().unwrap();
            headers.append(name, value.clone());
        }
    }
    for proxies in 0..3 {
        let address = ClientAddress::behind(proxies);
        let _ = address.key(Some([10, 0, 0, 1].into()), &headers);
        let _ = address.header(http::header::FORWARDED).key(None, &headers);
    }
    let _ = retry_after(&headers, UNIX_EPOCH);
});
