//! Runs CKB scripts: guest memory, native code and ckb-vm's `AsmMachine` as the fallback, on one shared
//! state.
//!
//! ```text
//! Machine::new     maps guest memory and the native stack, prepares the calling thread's signals
//! Library::load    opens a compiled script and checks its header
//! Machine::run     loads the ELF, runs native code if available, returns a Report
//! Machine::profile runs in a counting interpreter, returns a Report and a Recording
//! Machine::watch   same as profile, and collects evidence of how the run ended
//! ```
//! Native code either exits with exact cycles or bails out for good (a [`BailoutReason`]). After a bailout,
//! the script runs again from scratch in ckb-vm's `AsmMachine`, which then defines outcome, cycles, registers
//! and memory. The restart is invisible: the only effect of a script is its debug output, which is discarded
//! and produced anew.
#![allow(unsafe_code, reason = "guest memory and native code")]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("generated code is x86-64 System V code, and its faults are caught by Linux signals");

mod addresses;
mod advance;
mod aside;
mod bailout;
mod budget;
mod calls;
mod cell_cache;
mod code;
mod counted;
mod counters;
mod current;
mod debug;
mod enter;
mod error;
mod heap;
mod hidden;
mod host;
mod interpreter;
pub mod limits;
mod lineage;
mod load_cells;
mod loader;
mod machine;
mod mapped;
mod mapping;
mod marks;
mod memory;
mod native;
mod observed;
mod outcome;
mod pages;
mod parked;
mod phase;
mod profiled;
mod program;
mod recorded;
mod recording;
mod reserve;
mod resumed;
mod runner;
mod sampler;
mod session;
mod shadow;
mod signals;
mod sources;
mod stack;
#[cfg(test)]
mod swap;
mod touch;
mod tracer;
mod unknown;
mod walk;
mod watch;
mod wiper;
mod witness;

pub use advance::{Paused, Steppable, Stepper};
pub use antares_abi::{BailoutReason, Tier};
pub use antares_hosted::job::{RunOutcome as Outcome, RunReport as Report};
pub use cell_cache::cache_cells;
pub use counted::{CountedMachine, CountingSession};
pub use error::{LibraryError, VmError};
pub use heap::reserve_heap;
pub use load_cells::CellLoads;
pub use machine::{Limits, Machine, RunScript};
pub use mapped::{cache_machines, reserve_machines};
pub use memory::Core;
pub use native::Library;
pub use outcome::failure;
pub use profiled::{GroupRecording, ProfileSession, ProfiledMachine};
pub use program::Program;
pub use recording::{Context, Recorded, Recording, StackLocation, Step};
pub use runner::NativeMachine;
pub use sampler::{Sampler, Sampling};
pub use session::{Counts, Finder, MachineSession};
pub use signals::prepare_thread;
pub use touch::{Touch, touched};
pub use unknown::{Unknown, count_unknown};
pub use watch::Watching;
