//! Section `[sandbox]`.

use crate::{check::Checker, section::section};

section! {
/// The fence around workers.
"sandbox": RawSandbox => SandboxSection {
    /// Required layers whose absence on this machine is accepted, by name. Without it the service does not
    /// start.
    allow_degraded: list;
    /// Workers after which a zygote is replaced by one with another layout of its address space, which its
    /// workers have too. The old one's finish what they do; no call waits for it.
    fixed zygote_workers_max: positive = 10_000;
    /// Time after which it is. While both are there the machine holds two, and three for the moment in which
    /// the next one starts.
    fixed zygote_age_ms_max as zygote_age_max: time = 3_600_000;
    /// Whether workers ask the kernel not to run loads ahead of stores (Spectre v4), where the machine offers
    /// it. It guards data of the worker's own tenant, and costs 12 % of the speed, up to 59 % in code with
    /// many loads and stores.
    limit_store_bypass: flag;
    /// Whether workers ask the kernel not to predict indirect branches by what others have trained (Spectre
    /// v2), where the machine offers it. For tenants who distrust each other; where cores have two threads it
    /// costs up to half of the speed.
    limit_indirect_branches: flag;
    /// Whether nothing else runs on the threads of a worker's core while it does, where the kernel offers it.
    /// Where cores have two threads, that is up to half of the machine.
    core_scheduling: flag;
    /// Folder of a control group in which the service may make one for each worker; empty for none. Compile
    /// workers then have `compiler.memory_bytes_max`, run workers 2 GiB, with their memory files. No process
    /// is in it; the service may be in a group inside.
    cgroup: absolute_or_none;
}
}

impl RawSandbox {
    /// `layers`: the valid names of layers.
    pub(crate) fn check_layers(&self, layers: &[&str], checker: &mut Checker) {
        for name in self.allow_degraded.iter().filter(|name| !layers.contains(&name.as_str())) {
            let known = layers.join(", ");
            checker
                .record("sandbox.allow_degraded", format!("no layer is called {name:?}; there are {known}"));
        }
    }
}
