//! CKB-VM scripts as native code, in your own program.
//!
//! ```
//! use antares::{End, Engine, Run, VmVersion};
//!
//! # fn run(elf: Vec<u8>) -> Result<(), antares::Error> {
//! let engine = Engine::new();
//! let script = engine.compile(elf, VmVersion::V2)?;
//! let outcome = script.run(Run::new().arg("10").max_cycles(70_000_000))?;
//! println!("{:?} after {} cycles", outcome.end, outcome.cycles);
//! assert_eq!(outcome.end, End::Exited(0));
//! # Ok(()) }
//! ```
//! Outcome, exit code and cycles always equal those of ckb-vm's `AsmMachine`. If native code bails out, that
//! machine runs the script again from its first instruction; [`Syscalls::begin`] notifies your system calls
//! of it.
//!
//! | task | API |
//! |---|---|
//! | compile native code here, with LLVM | [`Engine::compile`] (feature `compile`) |
//! | load native code compiled and signed elsewhere | [`Engine::load`], with [`TrustedKeys`] |
//! | use only ckb-vm's interpreter | [`Engine::script`] |
//! | add your own system calls | [`Run::syscalls`] |
//! | profile the cycles | [`Script::profile`] (feature `profile`) |
//! | run untrusted scripts next to secrets | [`Sandbox::run`], with the program `antares-run-worker` |
//! | verify a whole transaction | [`Verifier`] (feature `ckb`) |
//! | verify in tests that use ckb-testtool | `testtool` (feature `testtool`) |
//! | verify a transaction in parts | [`Verifier::begin`] |
//!
//! # Effects on your process
//!
//! Scripts run on the calling thread, in your process, without the sandbox of the services. A thread that has
//! run native code retains 4 MiB of guest memory and a native stack for the next run. Transactions share the
//! memory of two machines per processor, at most 4 MiB each while idle. The crate installs handlers for
//! SIGSEGV, SIGBUS, SIGFPE and SIGILL; faults outside of scripts go to the previous handlers. Only its cycle
//! limit ends a run. Run untrusted scripts in a process with secrets in a [`Sandbox`], whose processes can
//! only compute. Run untrusted whole transactions with the services or `antares verify`.
//!
//! The crate runs machine code from elsewhere only under two conditions. A trusted key must have signed it
//! for this script, engine and processor, and it must contain only instructions that our generators emit.

mod artifact;
mod engine;
mod error;
mod machines;
mod outcome;
#[cfg(feature = "profile")]
mod profile;
mod run;
mod sandbox;
mod script;
mod syscalls;
#[cfg(feature = "testtool")]
pub mod testtool;
#[cfg(feature = "ckb")]
mod verification;
#[cfg(feature = "ckb")]
mod verify;

pub use artifact::{SignedArtifact, TrustedKeys};
pub use engine::{Engine, VmVersion};
pub use error::Error;
pub use outcome::{End, Outcome, Trap};
#[cfg(feature = "profile")]
pub use profile::{FunctionCycles, Profile};
pub use run::Run;
pub use sandbox::Sandbox;
pub use script::{CodeHash, Script};
pub use syscalls::{Flow, Guest, Syscalls};
#[cfg(feature = "ckb")]
pub use verification::{Progress, Verification};
#[cfg(feature = "ckb")]
pub use verify::{Verdict, Verifier};
