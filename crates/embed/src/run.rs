//! Parameters of a run: its arguments and limits.

use std::sync::{Arc, Mutex};

use antares_vm::Limits;
use bytes::Bytes;

use crate::Syscalls;

/// Default cycle limit: that of a block on CKB's main network.
const CYCLES_MAX: u64 = 3_500_000_000;

/// Default limit of debug output, in bytes.
const DEBUG_BYTES_MAX: u64 = 1 << 20;

/// Parameters of a run: its arguments and limits.
#[must_use]
#[derive(Clone)]
pub struct Run {
    pub(crate) args: Vec<Bytes>,
    pub(crate) cycles_max: u64,
    pub(crate) debug_bytes_max: u64,
    pub(crate) interprets: bool,
    pub(crate) syscalls: Option<Arc<Mutex<dyn Syscalls>>>,
}

impl Default for Run {
    fn default() -> Self {
        Self::new()
    }
}

impl Run {
    /// A run without arguments, limited to 3.5 billion cycles.
    pub fn new() -> Self {
        Self {
            args: Vec::new(),
            cycles_max: CYCLES_MAX,
            debug_bytes_max: DEBUG_BYTES_MAX,
            interprets: false,
            syscalls: None,
        }
    }

    /// Adds an argument. The first one is the guest's `argv[0]`.
    pub fn arg(mut self, arg: impl Into<Bytes>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<Bytes>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the cycle limit, without loading.
    pub fn max_cycles(mut self, cycles: u64) -> Self {
        self.cycles_max = cycles;
        self
    }

    /// Sets the limit of recorded debug output, in bytes; each line counts one more. Default 1 MiB.
    pub fn max_debug_bytes(mut self, bytes: u64) -> Self {
        self.debug_bytes_max = bytes;
        self
    }

    /// Uses ckb-vm's interpreter, even for a script with native code. The outcome is the same.
    pub fn interpreted(mut self) -> Self {
        self.interprets = true;
        self
    }

    /// Adds your own system calls. Keep a clone of the `Arc` to read their state afterwards.
    pub fn syscalls(mut self, calls: Arc<Mutex<dyn Syscalls>>) -> Self {
        self.syscalls = Some(calls);
        self
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { cycles_max: self.cycles_max, debug_bytes_max: self.debug_bytes_max }
    }
}
