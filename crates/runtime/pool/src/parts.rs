//! One compile in several concurrent children: each makes a part, and another one links them.
//!
//! The children have the usual sandbox and a single thread. The library is byte-identical to that of one
//! child.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use antares_abi::parts_of;

use crate::{
    Compiled, Pool, PoolError, Sealed, Verdict,
    cancel::Until,
    job::{CompileJob, CompileReport, CompileSummary, CompileTask, Stage},
};

type Answer = Result<Verdict<Compiled>, PoolError>;

impl Pool {
    /// Compiles `elf` to a library in up to `workers` concurrent children. `job.task` is [`Stage::Library`].
    ///
    /// # Errors
    /// As [`Pool::run`].
    pub fn compile_in_parts(
        &self,
        job: &CompileJob,
        elf: &Sealed,
        workers: usize,
        until: impl Into<Until>,
    ) -> Answer {
        let (of, until) = (parts_of(elf.len()), until.into());
        if of == 1 || workers < 2 || job.task != Stage::Library.into() {
            return self.compile(job, elf, until);
        }
        let started = Instant::now();
        let mut blob = Vec::new();
        let mut first: Option<CompileSummary> = None;
        let mut refused_orders = 0;
        for answer in self.parts(job, elf, workers, &until, of) {
            match answer? {
                Verdict::Done(Compiled { report: CompileReport::Done(summary), output: Some(object) }) => {
                    let bytes = object.read().map_err(PoolError::io("read a part"))?;
                    blob.extend((bytes.len() as u64).to_le_bytes());
                    blob.extend(bytes);
                    refused_orders = summary.refused_orders.saturating_add(refused_orders);
                    first.get_or_insert(summary);
                }
                other => return Ok(other),
            }
        }
        let blob = Sealed::new("antares-parts", &blob).map_err(PoolError::io("make a file of parts"))?;
        let linked = self.compile(&CompileJob { task: CompileTask::Link, ..job.clone() }, &blob, until)?;
        Ok(linked.map(|mut linked| {
            if let (CompileReport::Done(summary), Some(first)) = (&mut linked.report, first) {
                summary.guest_code_bytes = first.guest_code_bytes;
                summary.functions = first.functions;
                summary.blocks = first.blocks;
                summary.unproved_functions = first.unproved_functions;
                summary.refused_orders = refused_orders;
                summary.compile_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            }
            linked
        }))
    }

    /// The answers for the parts, in order. After a failed part, further ones may be missing.
    fn parts(
        &self,
        job: &CompileJob,
        elf: &Sealed,
        workers: usize,
        until: &Until,
        of: u32,
    ) -> impl Iterator<Item = Answer> {
        let next = AtomicU32::new(0);
        let answers: Mutex<Vec<(u32, Answer)>> = Mutex::new(Vec::new());
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= of {
                    return;
                }
                let job = CompileJob { task: Stage::Part { index, of }.into(), ..job.clone() };
                let answer = self.compile(&job, elf, until.clone());
                let is_object =
                    matches!(&answer, Ok(Verdict::Done(Compiled { report: CompileReport::Done(_), .. })));
                if !is_object {
                    // Further parts would be useless.
                    next.store(of, Ordering::Relaxed);
                }
                answers.lock().unwrap_or_else(PoisonError::into_inner).push((index, answer));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..workers.min(of as usize) {
                scope.spawn(work);
            }
            work();
        });
        let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Put failures first: parts that are missing because of them are then not used.
        answers.sort_by_key(|(index, answer)| {
            let is_object =
                matches!(answer, Ok(Verdict::Done(Compiled { report: CompileReport::Done(_), .. })));
            (is_object, *index)
        });
        answers.into_iter().map(|(_, answer)| answer)
    }
}
