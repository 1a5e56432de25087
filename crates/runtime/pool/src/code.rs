//! The second look at a compiled library: its machine code is checked in a child that is not the compiler's,
//! before anybody signs, keeps or runs it.

use crate::{
    Compiled, Pool, PoolError, Until, Verdict,
    job::{CompileJob, CompileLimits, CompileReport, CompileTask},
    ledger::Count,
};

/// Address space of a child that checks code, bytes: the code several times over, and what every compile
/// child has mapped.
const CHECK_MEMORY_BYTES_MAX: u64 = 8 << 30;
/// Processor time of a check, milliseconds. Two for 100 KB of code are usual.
const CHECK_MS_MAX: u64 = 30_000;

impl Pool {
    /// Has the code of `compiled` checked, if it is a library. What is refused is a failure of the compiler,
    /// and counted.
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
