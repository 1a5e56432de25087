//! A script group under a debugger, forwards and backwards.
//!
//! ```text
//! Debuggee::new       prepares a script group
//! Debuggee::resume    goes on, or back, to where a Stop says why
//! Debuggee::registers, memory, vms, cycles    what is there now
//! gdb::serve          gdb's remote protocol over a Debuggee
//! ```
//! ckb-script's scheduler runs the group once, in ckb-vm's `AsmMachine`, a little ahead of where somebody
//! looks, and a recorder keeps what it did to each VM between that VM's own instructions. From that, and from
//! images of all VMs some million cycles apart, any moment is made again: instructions and system calls of
//! one VM are a function of its state. So outcome and cycles are those of the recorded run, and going back is
//! going forwards from the image before.

mod debuggee;
mod error;
pub mod gdb;
mod history;
mod image;
mod lane;
mod limits;
mod loaded;
mod printed;
mod record;
mod replay;
mod scan;
mod stops;
mod tape;
mod undo;

pub use debuggee::{Debuggee, LineSink, Registers, Resume, Stop, Target, VmFault};
pub use error::DebugError;
pub use stops::{Access, Caught, Stops, WatchRange};
