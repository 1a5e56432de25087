//! Confines the calling process: seccomp, Landlock, rlimits, capabilities, and the order of the steps.
//!
//! A zygote confines itself once with [`ChildRole::Zygote`]. Each child that it forks confines itself
//! further, with [`ChildRole::Compile`] or [`ChildRole::RunLoad`]. A run child then enters [`ChildRole::Run`]
//! for good. Filters, Landlock domains and limits only get narrower. [`Confinement::lock_in`] documents the
//! order, and [`self_test`] verifies the confinement on this machine.
#![allow(unsafe_code, reason = "system calls without a safe form")]

mod calls;
mod confinement;
mod error;
mod filter;
mod fork;
mod landlock;
mod layer;
mod limits;
mod naming;
mod policy;
mod privilege;
mod probe;
mod roles;
mod sealing;
mod speculation;

pub use calls::call_name;
pub use confinement::Confinement;
pub use error::SandboxError;
pub use filter::{Filter, Instruction};
pub use fork::{Fork, close_others, exit_now, fork, move_to};
pub use layer::{Layer, LayerParseError, LayerStatus};
pub use limits::{
    Limit, RUN_ADDRESS_SPACE_BYTES_MAX, RUN_CPU_SECONDS_MAX, RUN_DATA_BYTES_MAX, RUN_MEMORY_BYTES_MAX,
    compile_file_bytes_max,
};
pub use naming::{CALL_OFFSET, name_violations};
pub use policy::{Action, ChildRole, Condition, Policy, SyscallRule, SystemCall, Test};
pub use privilege::die_with;
pub use probe::self_test;
pub use roles::{CONTROL_FD, ELF_FD, EXTRA_FD, EXTRA_FDS_MAX, FORK_FLAGS};
pub use sealing::{seal, seal_loaded};
pub use speculation::{Speculation, separate_core};
