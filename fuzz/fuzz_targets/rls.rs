//! A `RateLimitRequest` of Envoy's protocol: refused, or answered with one status per descriptor.
#![no_main]

mod server;

use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;
use ratekeeper_server::{
    grpc::{Grpc, wire::RateLimitRequest},
    health::Health,
    security::Access,
};
use ratekeeper_http::HeaderStyle;

thread_local! {
    static GRPC: (Runtime, Grpc) = {
        let (runtime, engine) = server::start();
        let health = Health::new(engine.clone());
        (runtime, Grpc::new(engine, Access::open(), HeaderStyle::IetfAndX, health))
    };
}

fuzz_target!(|input: &[u8]| {
    GRPC.with(|(runtime, grpc)| {
        if let Ok(response) = runtime.block_on(grpc.answer(input)) {
            let request: RateLimitRequest = prost::Message::decode(input).unwrap();
            assert_eq!(response.statuses.len(), request.descriptors.len());
        }
    });
});
