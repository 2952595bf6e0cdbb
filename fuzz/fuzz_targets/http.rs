//! The HTTP wire after hyper: path and query, header fields, body. No panic, and never a 500.
//!
//! The input is text: a line with the path, lines with header fields, an empty line, the body.
#![no_main]

mod server;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;
use ratekeeper_server::{
    config::{AllowedHosts, AuthConfig, Bounds},
    http::{Guard, Http},
    security::Access,
};
use ratekeeper_http::HeaderStyle;

thread_local! {
    static HTTP: (Runtime, Http) = {
        let (runtime, engine) = server::start();
        let guard = Guard::new(([127, 0, 0, 1], 8080).into(), AllowedHosts::default());
        (runtime, Http::new(engine, Access::open(), HeaderStyle::IetfAndX, AuthConfig::default(), guard))
    };
}

fuzz_target!(|input: &[u8]| {
    let Some(request) = request(input) else { return };
    HTTP.with(|(runtime, http)| {
        let reply = runtime.block_on(http.answer(request, ([127, 0, 0, 1], 9).into(), Bounds::default()));
        assert_ne!(reply.status(), 500);
    });
});

fn request(input: &[u8]) -> Option<Request<Full<Bytes>>> {
    let end = input.windows(2).position(|two| two == b"\n\n");
    let (head, body) = end.map_or((input, &[][..]), |end| (&input[..end], &input[end + 2..]));
    let mut lines = head.split(|byte| *byte == b'\n');
    let path = lines.next()?;
    let method = if path.starts_with(b"/v1/auth") { Method::GET } else { Method::POST };
    let mut request = Request::builder().method(method).uri(path);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    request.body(Full::new(Bytes::copy_from_slice(body))).ok()
}
