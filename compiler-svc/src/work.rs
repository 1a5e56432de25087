//! The compile: in workers of the pool, while any caller wants it.

use std::time::{Duration, Instant};

use antares_abi::{COMPILE_WALL_TIMES, CodeTier, parts_of};
use antares_config::{CompilerSection, millis};
use antares_pool::{
    ArtifactError, Compiled, Pool, PoolError, Recall, Sealed, Until, Verdict, is_exhausted,
    job::{CompileJob, CompileLimits, CompileReport, CompileSummary, Stage},
};
use antares_serve::chain;
use antares_trust::Refusal;
use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    artifact::{CompileError, internal},
    blocking::blocking,
    compiler::Shared,
    order::Order,
};

/// Maximum address space of a baseline compile, bytes.
const QUICK_MEMORY_BYTES_MAX: u64 = 1 << 30;

impl Shared {
    /// Compiles in a worker; checks the library.
    pub(crate) async fn work(&self, order: &Order, elf: Bytes) -> Result<Worked, CompileError> {
        let queue = self.limits.queue_time_max;
        let waiting = self.metrics.waits();
        let (slots, stage) = match order.tier {
            CodeTier::Baseline => (&self.quick_slots, Stage::Baseline),
            CodeTier::Full => (&self.slots, Stage::Library),
        };
        let slot = tokio::time::timeout(queue, slots.clone().acquire_owned()).await;
        drop(waiting);
        let busy = || CompileError::Busy(millis(queue));
        let Ok(Ok(slot)) = slot else { return Err(busy()) };
        let is_full = order.tier == CodeTier::Full;
        // Parts of a big script use otherwise idle workers.
        let more = if is_full { parts_of(elf.len() as u64) - 1 } else { 0 };
        let spare = (1..=more).rev().find_map(|more| self.slots.clone().try_acquire_many_owned(more).ok());
        let workers = 1 + spare.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let (pool, account) = (self.pool.clone(), order.account.clone());
        let mut limits = compile_limits(&self.limits);
        if !is_full {
            limits.memory_bytes_max = limits.memory_bytes_max.min(QUICK_MEMORY_BYTES_MAX);
        }
        let job =
            CompileJob { options: order.options, task: stage.into(), hints: order.hints.clone(), limits };
        // The pool enforces its own limits; the extra time is for a zygote being replaced.
        let recall = Recall::default();
        let wall = Duration::from_millis(limits.wall_ms_max * COMPILE_WALL_TIMES);
        let until = recall.until(Instant::now() + wall + queue);
        let worked = blocking(move || {
            let mut began = Instant::now();
            let mut worked = compile(&pool, &job, &elf, workers, until.clone());
            if let Ok(Verdict::FalseReport { detail }) = &worked {
                tracing::error!(detail, "a compile worker's report was false");
                // Nobody is charged for it.
                began = Instant::now();
                worked = compile(&pool, &job, &elf, workers, until);
            }
            let charged = began.elapsed() * u32::try_from(workers).unwrap_or(u32::MAX);
            if !matches!(&worked, Ok(Verdict::FalseReport { .. })) {
                account.compiled(charged);
            }
            // Held until the workers are gone, even if all callers have gone away.
            drop((slot, spare));
            worked.map(|verdict| (verdict, charged))
        });
        match worked.await? {
            Ok((verdict, charged)) => {
                let (summary, library) = judged(verdict, limits.wall_ms_max)?;
                Ok(Worked { summary, library, charged })
            }
            Err(error) if error.is_for_now() => {
                tracing::warn!(error = chain(&error), "no compile worker");
                Err(busy())
            }
            Err(error) => Err(internal("compile", &error)),
        }
    }
}

/// Result of a compile.
pub(crate) struct Worked {
    pub(crate) summary: CompileSummary,
    pub(crate) library: Sealed,
    /// Time charged to its tenant.
    pub(crate) charged: Duration,
}

/// Why a compile got no verdict.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    #[error("cannot make a memory file")]
    Seal(#[source] std::io::Error),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error("the library is not one of ours")]
    Library(#[from] ArtifactError),
    #[error("its manifest")]
    Refused(#[from] Refusal),
}

impl WorkError {
    /// Whether it may succeed later.
    pub(crate) fn is_for_now(&self) -> bool {
        match self {
            Self::Seal(error) => is_exhausted(error),
            Self::Pool(error) => error.is_for_now(),
            Self::Library(_) | Self::Refused(_) => false,
        }
    }
}

/// Compiles; the pool has checked the library. Blocks.
fn compile(
    pool: &Pool,
    job: &CompileJob,
    elf: &Bytes,
    workers: usize,
    until: Until,
) -> Result<Verdict<Compiled>, WorkError> {
    let elf = Sealed::new("antares-script", elf).map_err(WorkError::Seal)?;
    Ok(pool.compile_in_parts(job, &elf, workers, until)?)
}

fn judged(verdict: Verdict<Compiled>, wall_ms_max: u64) -> Result<(CompileSummary, Sealed), CompileError> {
    match verdict {
        Verdict::Done(Compiled { report, output }) => match (report, output) {
            (CompileReport::Done(summary), Some(library)) => Ok((summary, library)),
            (CompileReport::Done(_), None) => {
                Err(CompileError::Failed("the worker gave no library".to_owned()))
            }
            (CompileReport::Refused { reason, detail }, _) => Err(CompileError::Refused { reason, detail }),
            (CompileReport::Failed { detail }, _) => Err(CompileError::Failed(detail)),
        },
        Verdict::DeadlineExceeded => Err(CompileError::Timeout(wall_ms_max)),
        Verdict::SandboxViolation { detail } => Err(CompileError::Violation(detail)),
        Verdict::WorkerLost { detail } => Err(CompileError::WorkerLost(detail)),
        Verdict::FalseReport { detail } => {
            tracing::error!(detail, "no compile worker's report can be true");
            Err(CompileError::Internal)
        }
    }
}

pub(crate) fn compile_limits(limits: &CompilerSection) -> CompileLimits {
    CompileLimits {
        code_bytes_max: limits.code_bytes_max,
        operations_max: limits.operations_max,
        memory_bytes_max: limits.memory_bytes_max,
        wall_ms_max: millis(limits.wall_time_max),
        ..CompileLimits::DEFAULT
    }
}
