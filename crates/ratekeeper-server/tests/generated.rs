//! Freshness of the generated protobuf code in `src/grpc/generated`.
//!
//! The code is committed, so that a build needs no protobuf compiler. This test generates it again with a compiler
//! written in Rust and compares. With `RATEKEEPER_RENEW=1` it writes the result.

#![allow(clippy::panic, clippy::expect_used, reason = "helpers of tests stop the test")]

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use prost_types::{FileDescriptorSet, field_descriptor_proto::Type};
use protox::Compiler;

/// Generated files: one file of code per package, and the descriptors for reflection.
const GENERATED: [&str; 5] = [
    "envoy.config.core.v3.rs",
    "envoy.extensions.common.ratelimit.v3.rs",
    "envoy.service.ratelimit.v3.rs",
    "envoy.type.v3.rs",
    "descriptors.bin",
];

#[test]
fn the_committed_code_is_current() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = tempfile::tempdir().expect("a temporary directory");
    make(&home.join("proto"), fresh.path());

    let kept = home.join("src/grpc/generated");
    let renew = env::var_os("RATEKEEPER_RENEW").is_some();
    let mut made: Vec<_> =
        fs::read_dir(fresh.path()).expect("just made").map(|file| file.expect("a file").file_name()).collect();
    made.sort();
    let mut expected = GENERATED.map(OsString::from).to_vec();
    expected.sort();
    assert_eq!(made, expected, "packages have changed; update src/grpc/wire.rs too");

    for name in GENERATED {
        let fresh = fs::read(fresh.path().join(name)).expect("just made");
        if renew {
            fs::write(kept.join(name), &fresh).expect("the source directory can be written");
        }
        let kept = fs::read(kept.join(name)).unwrap_or_default();
        assert!(
            kept == fresh,
            "src/grpc/generated/{name} is not what proto/ makes of it; \
             run `RATEKEEPER_RENEW=1 cargo test -p ratekeeper-server --test generated` and commit"
        );
    }
}

fn make(protos: &Path, out: &Path) {
    let root: PathBuf = "envoy/service/ratelimit/v3/rls.proto".into();
    let mut compiler = Compiler::new([protos]).expect("the directory of protos");
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_file(&root)
        .unwrap_or_else(|error| panic!("{error:?}"));
    let mut descriptors = compiler.file_descriptor_set();
    let mut in_rust = descriptors.clone();
    value_as_bytes(&mut in_rust);
    tonic_prost_build::configure()
        // Connecting is part of the client; the server does not need it.
        .build_transport(false)
        // Bounds repeated fields before decoding.
        .codec_path("crate::grpc::codec::BoundedCodec")
        .out_dir(out)
        .compile_fds(in_rust)
        .expect("code for the messages");
    fs::rename(out.join("envoy.r#type.v3.rs"), out.join("envoy.type.v3.rs")).expect("a name without Rust's spelling");

    // Reflection needs no source locations and comments.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    fs::write(out.join("descriptors.bin"), prost::Message::encode_to_vec(&descriptors)).expect("the descriptors");
}

/// Declares the value of a descriptor entry as bytes: proxies forward header values of clients that may not be UTF-8,
/// and a message with an invalid string cannot be decoded.
fn value_as_bytes(descriptors: &mut FileDescriptorSet) {
    let messages = descriptors.file.iter_mut().flat_map(|file| &mut file.message_type);
    let nested = messages.filter(|message| message.name() == "RateLimitDescriptor").flat_map(|it| &mut it.nested_type);
    let fields = nested.filter(|message| message.name() == "Entry").flat_map(|entry| &mut entry.field);
    let mut values: Vec<_> = fields.filter(|field| field.name() == "value").collect();
    let [value] = values.as_mut_slice() else { panic!("one field RateLimitDescriptor.Entry.value: {values:?}") };
    value.set_type(Type::Bytes);
}
