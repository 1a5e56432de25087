//! A transaction with its available native code. The first verification does not wait for a long compile: it
//! races against it in the interpreter, and the first to finish answers.

use std::{
    cmp::Reverse,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::race::{EarlyRun, idle_worker};
use antares_abi::Sha256Digest;
use antares_pool::{
    Pool, PoolError, Sealed, StartedRun, Until, Verdict,
    job::{
        DOCUMENT_BYTES_MAX, KnownGroup, LibraryOf, Rules, SharedCell, TransactionForm, VerifyJob,
        VerifyReport,
    },
};
use antares_transaction::{Environment, Mock};
use bytes::Bytes;
use tracing::Instrument;

use crate::{
    artifacts::{native::Native, seal::seal},
    ended::ExecuteError,
    execute::order::next_salt,
    scheduler::{
        lease::{Answered, Leasable, Leased, TimeLimits, is_answer},
        queue::Slot,
    },
    shadow_runs::VerifyAgain,
    source::Fallback,
    verify::{
        TransactionVerifier,
        hot_cells::HotCell,
        isolated_groups,
        order::{ExtraFiles, VerifyOrder},
        programs::{Candidate, FILES_MAX, FoundProgram, Natives, ProgramUse, files},
    },
};

/// Configuration of all verifications.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) groups_apart: bool,
    /// Cycles between two samples; 0 disables sampling.
    pub(crate) sample_cycles: u64,
}

/// A transaction, independent of its native code.
pub(crate) struct Transaction {
    pub(crate) order: VerifyOrder,
    document: Document,
    /// Cells in their own files, in the order of their numbers in the document.
    cells: Vec<Arc<HotCell>>,
    /// Its script groups, in the order of their runs.
    groups: Arc<[KnownGroup]>,
    /// Whether each group runs in a worker of its own.
    is_apart: bool,
    sample_cycles: u64,
    sample_salt: u64,
}

/// A verification with the native code available at its start.
pub(crate) struct Attempt {
    pub(crate) job: VerifyJob,
    /// In the job's order.
    pub(crate) libraries: Vec<Native>,
    /// ELFs of the last libraries.
    beside: Vec<Arc<Sealed>>,
    pub(crate) uses: Vec<ProgramUse>,
    /// Programs without native code, with reasons.
    pub(crate) without: Vec<(Sha256Digest, Fallback)>,
    /// Time of the longest compile.
    pub(crate) made: Duration,
}

impl Transaction {
    /// `order` with `mock`, the parsed transaction. The largest of `cells` become extra files, as many as
    /// allowed.
    pub(crate) async fn new(
        order: VerifyOrder,
        (mock, groups): (&Mock, Arc<[KnownGroup]>),
        mut cells: Vec<Arc<HotCell>>,
        files: usize,
        settings: Settings,
    ) -> Result<Self, ExecuteError> {
        if cells.len() > files {
            cells.sort_by_key(|cell| Reverse(cell.sealed.len()));
            cells.truncate(files);
        }
        let document = mock.document(&mut |hash| {
            cells.iter().zip(0..).find_map(|(cell, number)| (cell.data_hash == *hash).then_some(number))
        });
        let document = Document::new(document.into()).await?;
        let is_apart = settings.groups_apart && order.group.is_none();
        let sample_salt = order.sample_salt.unwrap_or_else(next_salt);
        let sample_cycles = settings.sample_cycles;
        Ok(Self { order, document, cells, groups, is_apart, sample_cycles, sample_salt })
    }

    fn job(&self, libraries: Vec<LibraryOf>, scripts: Arc<[Sha256Digest]>) -> VerifyJob {
        let VerifyOrder { group, tier, cycles_max, debug_bytes_max, .. } = self.order;
        let Environment { vm_1_epoch, vm_2_epoch, epoch } = self.order.environment;
        let cell = |cell: &Arc<HotCell>| SharedCell { data_hash: cell.data_hash, bytes: cell.sealed.len() };
        VerifyJob {
            form: TransactionForm::Molecule,
            rules: Rules { vm_1_epoch, vm_2_epoch, epoch },
            group,
            tier,
            cycles_max,
            debug_bytes_max,
            transaction_bytes: self.document.length,
            document: self.document.bytes.clone(),
            libraries,
            library_digests: Vec::new(),
            cells: self.cells.iter().map(cell).collect(),
            is_alone: self.is_apart,
            sample_cycles: self.sample_cycles,
            sample_salt: self.sample_salt,
            groups: Some(self.groups.clone()),
            scripts,
        }
    }

    /// Data for repeating the verification.
    pub(crate) fn again(&self, attempt: &Attempt) -> VerifyAgain {
        VerifyAgain { job: attempt.job.clone(), files: self.files(attempt).interpreted() }
    }

    fn files(&self, attempt: &Attempt) -> ExtraFiles {
        ExtraFiles {
            document: self.document.file.clone(),
            libraries: attempt.libraries.iter().map(|native| native.library.clone()).collect(),
            beside: attempt.beside.clone(),
            cells: self.cells.clone(),
        }
    }

    fn attempt(&self, programs: Vec<FoundProgram>) -> Attempt {
        let uses = programs.iter().filter_map(FoundProgram::to_use).collect();
        let without = programs.iter().map(FoundProgram::fallback);
        let without = without.filter_map(|(digest, fallback)| Some((digest, fallback?))).collect();
        let made_ms = programs.iter().filter_map(|program| program.native.as_ref()?.made_ms).max();
        let (libraries, beside) = files(programs, FILES_MAX.saturating_sub(self.cells.len()));
        let (of, libraries): (_, Vec<Native>) = libraries.into_iter().unzip();
        let scripts = libraries.iter().map(|native| native.script).collect();
        let made = Duration::from_millis(made_ms.unwrap_or(0));
        Attempt { job: self.job(of, scripts), libraries, beside, uses, without, made }
    }
}

impl TransactionVerifier {
    /// The transaction's native code. Alternatively the code available when a verification started, with its
    /// answer, if that beat the long compiles or if they failed.
    pub(crate) async fn attempt_or_answer(
        &self,
        transaction: &Transaction,
        candidates: Vec<Candidate>,
        deadline: Instant,
    ) -> Result<(Attempt, Option<Answered<VerifyReport>>), ExecuteError> {
        let VerifyOrder { tenant, tier, cycles_max, .. } = &transaction.order;
        let mut natives = Natives::request(&self.artifacts, &tenant.account, candidates, *tier, deadline);
        let idle = idle_worker(&mut natives, || self.scheduler.idle_slot(tenant));
        let Some(slot) = idle.await? else {
            return Ok((transaction.attempt(natives.found()), None));
        };
        let mut early = transaction.attempt(natives.found());
        let run = self.run_attempt(slot, transaction, &early, deadline);
        let run = Box::pin(run.instrument(tracing::debug_span!("meanwhile")));
        let overtaken = |time| tenant.account.ran_for(time, *cycles_max);
        let answered = EarlyRun { run, is_answer, overtaken }.race(&mut natives).await?;
        let attempt = transaction.attempt(natives.found());
        if answered.is_none() {
            return Ok((attempt, None));
        }
        (early.uses, early.without) = (attempt.uses, attempt.without);
        Ok((early, answered))
    }

    /// Verifies in a worker until the deadline.
    pub(crate) async fn run_attempt(
        &self,
        slot: Slot,
        transaction: &Transaction,
        attempt: &Attempt,
        deadline: Instant,
    ) -> Result<Leased<Verdict<VerifyReport>>, ExecuteError> {
        let (job, files) = (attempt.job.clone(), transaction.files(attempt));
        let limits = TimeLimits { run: transaction.order.run_time, deadline };
        if !transaction.is_apart {
            return self.scheduler.lease_to(slot, limits, Verify { job, files }).await;
        }
        let groups = transaction.groups.clone();
        let run = move |pool: &Pool, until| {
            files.lease(|files| isolated_groups::verify(pool, &groups, &job, files, &until))
        };
        self.scheduler.lease(slot, limits, run).await
    }
}

/// The transaction as workers parse it.
struct Document {
    /// Empty if it is in a file.
    bytes: Bytes,
    file: Option<Arc<Sealed>>,
    length: u64,
}

impl Document {
    async fn new(bytes: Bytes) -> Result<Self, ExecuteError> {
        let length = bytes.len() as u64;
        if bytes.len() <= DOCUMENT_BYTES_MAX {
            return Ok(Self { bytes, file: None, length });
        }
        let file = Some(Arc::new(seal("antares-transaction", bytes).await?));
        Ok(Self { bytes: Bytes::new(), file, length })
    }
}

/// A verification for any worker.
struct Verify {
    job: VerifyJob,
    files: ExtraFiles,
}

impl Leasable for Verify {
    type Report = VerifyReport;

    fn begin(&self, pool: &Pool, until: Until) -> Result<Option<StartedRun<VerifyReport>>, PoolError> {
        self.files.lease(|files| pool.begin_verify(&self.job, files, until))
    }

    fn run(&self, pool: &Pool, until: Until) -> Result<Verdict<VerifyReport>, PoolError> {
        self.files.lease(|files| pool.verify(&self.job, files, until))
    }
}
