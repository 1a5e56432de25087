//! CKB-VM scripts as native code, in a program of your own.
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
//! Outcome, exit code and cycles are those of ckb-vm's `AsmMachine`, always. What native code cannot do goes
//! to that machine, from the script's first instruction on: [`Syscalls::begin`] tells system calls of yours
//! that it does.
//!
//! | you want | use |
//! |---|---|
//! | native code made here, by LLVM | [`Engine::compile`] (feature `compile`) |
//! | native code made and signed elsewhere | [`Engine::load`], with [`TrustedKeys`] |
//! | ckb-vm's interpreter alone | [`Engine::script`] |
//! | system calls of your own | [`Run::syscalls`] |
//! | to know where the cycles go | [`Script::profile`] (feature `profile`) |
//! | scripts of strangers beside secrets of yours | [`Sandbox::run`], with the program `antares-run-worker` |
//! | a whole transaction | [`Verifier`] (feature `ckb`) |
//! | the same in tests that use ckb-testtool | `testtool` (feature `testtool`) |
//! | the same, a part at a time | [`Verifier::begin`] |
//!
//! # What it does to your process
//!
//! Scripts run on the calling thread, in your process, without the sandbox that the services have. A thread
//! that runs native code keeps 4 MiB of guest memory and a native stack for the next run. Transactions reuse
//! the memory of two machines per processor, at most 4 MiB each while idle. Handlers for
//! SIGSEGV, SIGBUS, SIGFPE and SIGILL are installed; faults that are not a script's go to the handlers that
//! were there before. A run is ended by its cycles alone. Scripts of strangers, beside secrets of yours,
//! belong into a [`Sandbox`], whose processes can do nothing but compute; whole transactions of strangers into
//! the services or `antares verify`.
//!
//! Machine code from elsewhere is run only if a trusted key signed it for this very script, engine and
//! processor, and if it consists of nothing but instructions that our generators make.
#![forbid(unsafe_code)]

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
