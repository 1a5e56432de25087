//! One run: its arguments and its limits.

use std::sync::{Arc, Mutex};

use bytes::Bytes;

use crate::Syscalls;

/// Cycles of a run that sets no limit: what a block of CKB's main network may have.
const CYCLES_MAX: u64 = 3_500_000_000;

/// Bytes of debug output that are kept, unless told otherwise.
const DEBUG_BYTES_MAX: u64 = 1 << 20;

/// One run: its arguments and its limits.
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
    /// Without arguments, with 3.5 billion cycles.
    pub fn new() -> Self {
        Self {
            args: Vec::new(),
            cycles_max: CYCLES_MAX,
            debug_bytes_max: DEBUG_BYTES_MAX,
            interprets: false,
            syscalls: None,
        }
    }

    /// One more argument. The first one is the guest's `argv[0]`.
    pub fn arg(mut self, arg: impl Into<Bytes>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// More arguments.
    pub fn args<A: Into<Bytes>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Cycles of the run, without those for loading.
    pub fn max_cycles(mut self, cycles: u64) -> Self {
        self.cycles_max = cycles;
        self
    }

    /// Bytes of debug output that are kept, each line with one more. Default 1 MiB.
    pub fn max_debug_bytes(mut self, bytes: u64) -> Self {
        self.debug_bytes_max = bytes;
        self
    }

    /// In ckb-vm's interpreter, even where there is native code. The outcome is the same.
    pub fn interpreted(mut self) -> Self {
        self.interprets = true;
        self
    }

    /// System calls of yours. Keep a clone of the `Arc` to have what they have gathered.
    pub fn syscalls(mut self, calls: Arc<Mutex<dyn Syscalls>>) -> Self {
        self.syscalls = Some(calls);
        self
    }
}
