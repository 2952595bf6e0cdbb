//! The RESP wire from bytes to bytes: no panic, and only well-formed replies.
#![no_main]

mod server;

use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;
use ratekeeper_server::{resp::Resp, security::Access};

thread_local! {
    static RESP: (Runtime, Resp) = {
        let (runtime, engine) = server::start();
        (runtime, Resp::new(engine, Access::open()))
    };
}

fuzz_target!(|input: &[u8]| {
    // Packets of all sizes, derived from the input so that a run can be repeated.
    let packet_bytes = input.len() % 61 + 1;
    RESP.with(|(runtime, resp)| {
        let (replies, _) = runtime.block_on(resp.converse(input, packet_bytes));
        assert!(replies.is_empty() || replies.ends_with(b"\r\n"));
    });
});
