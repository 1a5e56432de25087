//! A script group under a debugger, forwards and backwards.
//!
//! ```text
//! Debuggee::new       prepares a script group
//! Debuggee::resume    runs forwards or backwards, until a Stop with its reason
//! Debuggee::registers, memory, vms, cycles    the current state
//! gdb::serve          gdb's remote protocol over a Debuggee
//! ```
//! ckb-script's scheduler runs the group once, in ckb-vm's `AsmMachine`, slightly ahead of the debugger. A
//! recorder stores its effects on each VM between that VM's own instructions. From these, and from images of
//! all VMs some million cycles apart, replay recreates any moment: instructions and system calls of one VM are
//! a function of its state. So outcome and cycles are those of the recorded run, and running backwards is
//! running forwards from an earlier image.

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

pub use debuggee::{Debuggee, LineSink, Resume, Target};
pub use error::DebugError;
pub use image::Registers;
pub use stops::{Caught, Stop, Stops, WatchRange};
