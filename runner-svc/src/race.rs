//! The race of the interpreter against a compile: a first run does not wait for native code that takes long,
//! and whoever is done first has it.
//!
//! What is decided here:
//! * A run begins without native code only where the compile is long, nothing is stored and a worker is idle.
//! * The compile waits for it: a head start, which ends when somebody else needs the code, or when the
//!   interpreter ended without an answer.
//! * Native code that comes before the answer overtakes the interpreter. Where none comes, the run goes on.
//! * Code that came too late for this run is kept for later ones.
//! * The interpreter's time counts where nobody has its answer: it was overtaken, the compile failed, or the
//!   caller went away.
//!
//! What is left to callers: what a long compile is, how long its head start lasts, where code and workers
//! come from, which ends of a run are answers, whom its time is charged to. Nothing here knows of gRPC, of
//! scripts or of workers. Errors of either side end the race and are the caller's.

mod early_run;
mod head_start;
mod pending_code;
#[cfg(test)]
mod tests;

pub(crate) use early_run::{EarlyRun, Interpreted, RunTimer};
pub(crate) use head_start::{HeadStart, LongCompile};
pub(crate) use pending_code::{PendingCode, idle_worker};
