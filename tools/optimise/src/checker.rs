//! What has to be right for a rewritten script to be right, and nothing else. A reviewer reads these files.
//!
//! [`linked`] and [`relocation`] read what the linker recorded, [`code`] finds pieces of code that control
//! enters at their start alone, [`state`] executes two of them on symbols, [`cycles`] asks ckb-vm's decoder
//! what they cost, and [`compare`] holds two finished files against each other. None knows how the new file
//! was made.
//!
//! What it shows: whenever control is at the start of a piece, memory and all registers of both scripts are
//! equal, except registers that every path overwrites before anything reads them or control leaves the
//! function.

pub(crate) mod code;
pub(crate) mod compare;
mod cycles;
mod linked;
mod relocation;
pub(crate) mod state;
