//! The Rust code for the messages is what their `.proto` files make of it.
//!
//! It is committed, so that building needs no compiler for protobuf; this test makes it anew with one written in Rust
//! and compares. With `TOLLGATE_RENEW=1` it writes what it made.

#![allow(clippy::panic, clippy::expect_used, reason = "helpers of tests stop the test")]

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use prost_types::{FileDescriptorSet, field_descriptor_proto::Type};
use protox::Compiler;

/// Everything that is made: one file of code per package, and the descriptors that reflection hands out.
const MADE: [&str; 5] = [
    "envoy.config.core.v3.rs",
    "envoy.extensions.common.ratelimit.v3.rs",
    "envoy.service.ratelimit.v3.rs",
    "envoy.type.v3.rs",
    "descriptors.bin",
];

#[test]
fn the_committed_code_is_what_the_protos_make() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = tempfile::tempdir().expect("a temporary directory");
    make(&home.join("proto"), fresh.path());

    let kept = home.join("src/grpc/generated");
    let renew = env::var_os("TOLLGATE_RENEW").is_some();
    let mut made: Vec<_> =
        fs::read_dir(fresh.path()).expect("just made").map(|file| file.expect("a file").file_name()).collect();
    made.sort();
    let mut expected = MADE.map(OsString::from).to_vec();
    expected.sort();
    assert_eq!(made, expected, "a package came or went; say so in src/grpc/wire.rs as well");

    for name in MADE {
        let fresh = fs::read(fresh.path().join(name)).expect("just made");
        if renew {
            fs::write(kept.join(name), &fresh).expect("the source directory can be written");
        }
        let kept = fs::read(kept.join(name)).unwrap_or_default();
        assert!(
            kept == fresh,
            "src/grpc/generated/{name} is not what proto/ makes of it; \
             run `TOLLGATE_RENEW=1 cargo test -p tollgate-server --test generated` and commit"
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
        // Connecting is for whoever has the client; the server needs none of it.
        .build_transport(false)
        // Looks at a question before it takes it apart.
        .codec_path("crate::grpc::codec::Bounded")
        .out_dir(out)
        .compile_fds(in_rust)
        .expect("code for the messages");
    fs::rename(out.join("envoy.r#type.v3.rs"), out.join("envoy.type.v3.rs")).expect("a name without Rust's spelling");

    // Where in a file something stands, and comments, are of no use to whoever asks for reflection.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    fs::write(out.join("descriptors.bin"), prost::Message::encode_to_vec(&descriptors)).expect("the descriptors");
}

/// A descriptor entry's value is a string to whoever asks, and bytes to us: it holds what a client wrote into a header,
/// proxies pass that on whether it is UTF-8 or not, and a message with a bad string in it could not be read at all.
fn value_as_bytes(descriptors: &mut FileDescriptorSet) {
    let messages = descriptors.file.iter_mut().flat_map(|file| &mut file.message_type);
    let nested = messages.filter(|message| message.name() == "RateLimitDescriptor").flat_map(|it| &mut it.nested_type);
    let fields = nested.filter(|message| message.name() == "Entry").flat_map(|entry| &mut entry.field);
    let mut values: Vec<_> = fields.filter(|field| field.name() == "value").collect();
    let [value] = values.as_mut_slice() else { panic!("one field RateLimitDescriptor.Entry.value: {values:?}") };
    value.set_type(Type::Bytes);
}
