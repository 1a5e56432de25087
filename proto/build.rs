//! Compiles the proto files with a compiler in Rust (no protoc needed) and keeps their descriptors for
//! reflection.

use std::{env, fs, path::PathBuf};

use protox::prost::Message;

const FILES: [&str; 9] = [
    "antares/v1/admin.proto",
    "antares/v1/common.proto",
    "antares/v1/compiler.proto",
    "antares/v1/operations.proto",
    "antares/v1/profile.proto",
    "antares/v1/runner.proto",
    "antares/v1/store.proto",
    "antares/v1/usage.proto",
    "keda/externalscaler.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in FILES {
        println!("cargo::rerun-if-changed={file}");
    }
    let descriptors = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("antares.v1.bin"), descriptors.encode_to_vec())?;
    // Chunks and ELFs stay slices of the buffer that came from the socket.
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
