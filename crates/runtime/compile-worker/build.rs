//! Lets the worker find LLVM in `lib` next to its folder `bin`, where a release's archive has it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // A RUNPATH would not count for what LLVM itself needs.
    println!("cargo:rustc-link-arg-bins=-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib");
}
