//! Output of `antares --version`: the package, the commit, the engine and LLVM.

use std::sync::LazyLock;

use antares_abi::{ENGINE_VERSION, LLVM_VERSION};

static LONG: LazyLock<String> = LazyLock::new(|| {
    let (package, commit) = (env!("CARGO_PKG_VERSION"), env!("ANTARES_COMMIT"));
    format!("{package}\ncommit {commit}\nengine {ENGINE_VERSION}\nLLVM   {LLVM_VERSION}")
});

/// The version, with everything that determines the command's behaviour.
pub(crate) fn long() -> &'static str {
    &LONG
}
