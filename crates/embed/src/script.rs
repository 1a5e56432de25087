//! A script that is ready to run.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use antares_abi::{CompileOptions, Sha256Digest};
use antares_pool::Sealed;
use antares_vm::{Program, RunScript, Tier};
use bytes::Bytes;

use crate::{Error, Outcome, Run, error::chain, machines::with_machine};

/// SHA-256 of a script's ELF.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CodeHash(pub(crate) Sha256Digest);

impl CodeHash {
    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0.0
    }
}

impl fmt::Display for CodeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for CodeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A script that is ready to run. Cheap to clone; threads may share it.
#[derive(Clone)]
pub struct Script {
    pub(crate) elf: Bytes,
    pub(crate) digest: Sha256Digest,
    pub(crate) options: CompileOptions,
    /// `None` if it is interpreted, or ckb-vm does not load its ELF.
    pub(crate) program: Option<Arc<Program>>,
    /// The native code as a sealed file, for sandboxed processes.
    pub(crate) library: Option<Arc<Sealed>>,
    /// The ELF as a sealed file, created on first use.
    pub(crate) sealed: Arc<OnceLock<Sealed>>,
}

impl Script {
    /// SHA-256 of its ELF.
    #[must_use]
    pub fn hash(&self) -> CodeHash {
        CodeHash(self.digest)
    }

    /// Whether it has native code.
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.program.is_some()
    }

    /// Runs the script once, from cleared memory, on the calling thread.
    ///
    /// # Errors
    /// The system refuses memory for the thread's machine. How the script ends is an [`Outcome`].
    pub fn run(&self, run: Run) -> Result<Outcome, Error> {
        with_machine(|mapped| {
            let (script, limits) = (self.as_run(&run.args), run.limits());
            let tier = if run.interprets { Tier::Interpreter } else { Tier::Auto };
            mapped.calls.set(run.syscalls);
            let library = self.program.as_ref().map(|program| program.library());
            let report = mapped.machine.run(&script, &limits, tier, library);
            Ok(report.map_err(|error| Error::Machine(chain(&error)))?.into())
        })
    }

    /// Runs the script once in a profiling interpreter. The outcome equals that of [`Script::run`]; the run
    /// takes about ten times as long.
    ///
    /// # Errors
    /// As [`Script::run`].
    #[cfg(feature = "profile")]
    pub fn profile(&self, run: Run) -> Result<(Outcome, crate::Profile), Error> {
        with_machine(|mapped| {
            let (script, limits) = (self.as_run(&run.args), run.limits());
            mapped.calls.set(run.syscalls);
            let recorded = mapped.machine.profile(&script, &limits);
            let (report, recording) = recorded.map_err(|error| Error::Machine(chain(&error)))?;
            Ok((report.into(), crate::Profile::new(recording.to_profile(), &self.elf)))
        })
    }

    fn as_run<'a>(&'a self, args: &'a [Bytes]) -> RunScript<'a> {
        let (vm_version, isa) = (self.options.vm_version, self.options.isa.0);
        RunScript { elf: &self.elf, args, vm_version, isa }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Script");
        text.field("hash", &self.digest).field("vm_version", &self.options.vm_version);
        text.field("is_native", &self.is_native()).finish_non_exhaustive()
    }
}
