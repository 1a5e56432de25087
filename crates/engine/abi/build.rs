//! Finds the version of the LLVM that generates code, which is part of every artifact's key.

use std::{env, path::PathBuf, process::Command};

/// The tested version, for machines without LLVM, such as one that builds only a runner.
const TESTED: &str = "22.1.8";

fn main() {
    println!("cargo:rerun-if-env-changed=LLVM_SYS_221_PREFIX");
    let prefix = env::var_os("LLVM_SYS_221_PREFIX").map_or("/usr/lib/llvm-22".into(), PathBuf::from);
    let config = prefix.join("bin/llvm-config");
    println!("cargo:rerun-if-changed={}", config.display());
    let version =
        Command::new(&config).arg("--version").output().ok().filter(|answer| answer.status.success());
    let version = version.and_then(|answer| String::from_utf8(answer.stdout).ok()).unwrap_or_else(|| {
        println!("cargo:warning=no {}: artifact keys will name LLVM {TESTED}", config.display());
        TESTED.to_owned()
    });
    println!("cargo:rustc-env=ANTARES_LLVM_VERSION={}", version.trim());
}
