//! The types that are checked in are those of the proto files: nobody who builds needs a compiler of them.
//! `BLESS=1` writes them. A compiler in Rust does it, so that no protoc is needed.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{env, fs, path::Path};

use protox::prost::Message as _;

const FILES: [&str; 7] = ["admin", "common", "compiler", "operations", "profile", "runner", "store"];

/// The descriptors of all of them, for reflection.
const DESCRIPTORS: &str = "antares.v1.bin";

#[test]
fn what_is_checked_in_is_what_the_proto_files_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = tempfile::tempdir().unwrap();
    let files = FILES.map(|name| format!("antares/v1/{name}.proto"));
    let descriptors = protox::compile(files, [root]).unwrap();
    fs::write(made.path().join(DESCRIPTORS), descriptors.encode_to_vec()).unwrap();
    // Chunks and ELFs stay slices of the buffer that came from the socket.
    tonic_prost_build::configure().bytes(".").out_dir(made.path()).compile_fds(descriptors).unwrap();
    let kept = root.join("src/generated");
    for name in ["antares.v1.rs", DESCRIPTORS] {
        let made = fs::read(made.path().join(name)).unwrap();
        if env::var_os("BLESS").is_some() {
            fs::write(kept.join(name), &made).unwrap();
        }
        let is_same = fs::read(kept.join(name)).is_ok_and(|kept| kept == made);
        assert!(is_same, "{name}: run `BLESS=1 cargo test -p antares-proto`");
    }
}
