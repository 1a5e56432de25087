//! The second check of a compiled library: a process other than the compiler checks its machine code before it
//! is signed, stored or run.

use crate::{
    Compiled, Pool, PoolError, Until, Verdict,
    job::{CompileJob, CompileLimits, CompileReport, CompileTask},
    ledger::Count,
};

/// Address space of a child that checks code, in bytes: several times the code, and the mappings of every
/// compile child.
const CHECK_MEMORY_BYTES_MAX: u64 = 8 << 30;
/// Processor time of a check in milliseconds. Two for 100 KB of code are typical.
const CHECK_MS_MAX: u64 = 30_000;

impl Pool {
    /// Checks the code of `compiled` in a worker, if it is a library. Rejected code is a failure of the
    /// compiler, and counted.
    pub(crate) fn check_code(
        &self,
        job: &CompileJob,
        compiled: Compiled,
        until: Until,
    ) -> Result<Verdict<Compiled>, PoolError> {
        let Some(library) = compiled.output.as_ref().filter(|_| job.task.is_library()) else {
            return Ok(Verdict::Done(compiled));
        };
        let limits = CompileLimits {
            memory_bytes_max: CHECK_MEMORY_BYTES_MAX,
            wall_ms_max: CHECK_MS_MAX,
            ..job.limits
        };
        let check = CompileJob { task: CompileTask::Check, limits, ..job.clone() };
        self.make(&check, library, until)?.and_then(|checked| match checked.report {
            CompileReport::Done(_) => Ok(Verdict::Done(compiled)),
            CompileReport::Refused { detail, .. } => {
                self.count(Count::CodeRefused);
                let detail = format!("its machine code is refused: {detail}");
                tracing::error!(library = %library_digest(&compiled), detail, "compiled code is refused");
                Ok(Verdict::Done(Compiled { report: CompileReport::Failed { detail }, output: None }))
            }
            CompileReport::Failed { detail } => {
                let detail = format!("its machine code cannot be checked: {detail}");
                Ok(Verdict::Done(Compiled { report: CompileReport::Failed { detail }, output: None }))
            }
        })
    }
}

fn library_digest(compiled: &Compiled) -> String {
    compiled.output.as_ref().map(|library| library.digest().to_string()).unwrap_or_default()
}
