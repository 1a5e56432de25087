//! Debuggers of scripts: `antares debug` serves gdb, and `ckb-debugger` is a compatible program of that name.
//!
//! Without the feature `native`, there is only `ckb-debugger`, on ckb-vm's interpreter in its own process, for
//! systems without the sandbox.

pub mod ckb_debugger;
#[cfg(feature = "native")]
pub mod command;
pub mod in_process;
#[cfg(feature = "native")]
pub mod sandboxed;
#[cfg(feature = "native")]
pub mod session;
#[cfg(feature = "native")]
pub mod worker;
