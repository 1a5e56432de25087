//! The section `sandbox` as it is written.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `[sandbox]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawSandbox {
    /// Required layers whose absence on this machine is accepted, by name. Without it the service does not
    /// start.
    pub allow_degraded: Vec<String>,
    /// Workers after which a zygote is replaced by one with another layout of its address space.
    pub zygote_workers_max: u64,
    /// Time after which it is, milliseconds.
    pub zygote_age_ms_max: u64,
    /// Whether workers ask the kernel not to run loads ahead of stores (Spectre v4), where the machine offers
    /// it.
    pub limit_store_bypass: bool,
    /// Whether workers ask the kernel not to predict indirect branches by what others have trained (Spectre
    /// v2), where the machine offers it.
    pub limit_indirect_branches: bool,
    /// Whether nothing else runs on the threads of a worker's core while it does, where the kernel offers it.
    /// Where cores have two threads, that is up to half of the machine.
    pub core_scheduling: bool,
    /// Folder of a control group in which the service may make one for each worker; empty for none. Compile
    /// workers then have `compiler.memory_bytes_max`, run workers 2 GiB, with their memory files. No process
    /// is in it; the service may be in a group inside.
    pub cgroup: PathBuf,
}

impl Default for RawSandbox {
    fn default() -> Self {
        Self {
            allow_degraded: Vec::new(),
            zygote_workers_max: 10_000,
            zygote_age_ms_max: 3_600_000,
            limit_store_bypass: false,
            limit_indirect_branches: false,
            core_scheduling: false,
            cgroup: PathBuf::new(),
        }
    }
}
