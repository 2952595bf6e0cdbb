//! The RESP path from bytes to bytes: whatever comes in, no panic, and only answers that a client can take apart.
#![no_main]

mod server;

use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;
use tollgate_server::{resp::Resp, security::Access};

thread_local! {
    static RESP: (Runtime, Resp) = {
        let (runtime, engine) = server::start();
        (runtime, Resp::new(engine, Access::open()))
    };
}

fuzz_target!(|input: &[u8]| {
    // Cut into packets of all sizes, and the same way when it is run again.
    let at_once = input.len() % 61 + 1;
    RESP.with(|(runtime, resp)| {
        let (heard, _) = runtime.block_on(resp.converse(input, at_once));
        assert!(heard.is_empty() || heard.ends_with(b"\r\n"));
    });
});
