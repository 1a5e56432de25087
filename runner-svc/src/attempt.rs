//! A transaction with the native code that there is for it. The first verification does not wait for a long
//! compile: one begins without that code, and whoever is done first has the answer.

use std::{
    cmp::Reverse,
    num::NonZeroU64,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_config::RunnerSection;
use antares_pool::{
    Pool, PoolError, Sealed, StartedRun, Until, Verdict,
    job::{DOCUMENT_BYTES_MAX, LibraryOf, Rules, SharedCell, TransactionForm, VerifyJob, VerifyReport},
};
use antares_transaction::{Environment, Group, Mock};
use bytes::Bytes;
use tracing::Instrument;

use crate::{
    apart,
    charge::Unfinished,
    ended::ExecuteError,
    files_beside::FilesBeside,
    hot_cells::HotCell,
    lend::{Lendable, Lent},
    meanwhile::Answered,
    native::Native,
    programs::{Candidate, FILES_MAX, FoundProgram, ProgramUse, files},
    queue::Slot,
    recheck::VerifyAgain,
    runner::Shared,
    sampling::next_salt,
    seal::seal,
    signed::Signable,
    source::Fallback,
    verify::VerifyOrder,
};

/// A transaction, whatever native code there is.
pub(crate) struct Transaction {
    pub(crate) order: VerifyOrder,
    document: Document,
    /// Cells in files of their own, in the order of their numbers in the document.
    cells: Vec<Arc<HotCell>>,
    /// Its groups, if each is verified in a worker of its own.
    apart: Option<Vec<Group>>,
    sample_cycles: u64,
    sample_salt: u64,
    /// What there is to sign, if that is wanted.
    pub(crate) signable: Option<Box<Signable>>,
}

/// A verification with the native code that was there when it began.
pub(crate) struct Attempt {
    pub(crate) job: VerifyJob,
    /// In the job's order.
    pub(crate) libraries: Vec<Native>,
    /// What belongs to the last of the libraries.
    beside: Vec<Arc<Sealed>>,
    pub(crate) uses: Vec<ProgramUse>,
    /// What has no native code, and why.
    pub(crate) without: Vec<(Sha256Digest, Fallback)>,
    /// How long the longest compile took.
    pub(crate) made: Duration,
}

impl Transaction {
    /// `order` with `mock`, which was read of it: as many of `cells` as there may be files are beside it, the
    /// largest.
    pub(crate) async fn new(
        order: VerifyOrder,
        (mock, mut cells, files): (&Mock, Vec<Arc<HotCell>>, usize),
        groups: Vec<Group>,
        limits: &RunnerSection,
    ) -> Result<Self, ExecuteError> {
        if cells.len() > files {
            cells.sort_by_key(|cell| Reverse(cell.sealed.len()));
            cells.truncate(files);
        }
        let document = mock.document(&mut |hash| {
            cells.iter().zip(0..).find_map(|(cell, number)| (cell.data_hash == *hash).then_some(number))
        });
        let document = Document::new(document.into()).await?;
        let apart = (limits.groups_apart && order.group.is_none()).then_some(groups);
        let sample_salt = order.sample_salt.unwrap_or_else(next_salt);
        let sample_cycles = limits.sample_cycles.map_or(0, NonZeroU64::get);
        Ok(Self { order, document, cells, apart, sample_cycles, sample_salt, signable: None })
    }

    fn job(&self, libraries: Vec<LibraryOf>) -> VerifyJob {
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
            is_alone: self.apart.is_some(),
            sample_cycles: self.sample_cycles,
            sample_salt: self.sample_salt,
        }
    }

    /// What has to be known to verify it again.
    pub(crate) fn again(&self, attempt: &Attempt) -> VerifyAgain {
        VerifyAgain { job: attempt.job.clone(), files: self.files(attempt).interpreted() }
    }

    fn files(&self, attempt: &Attempt) -> FilesBeside {
        FilesBeside {
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
        let (of, libraries) = libraries.into_iter().unzip();
        let made = Duration::from_millis(made_ms.unwrap_or(0));
        Attempt { job: self.job(of), libraries, beside, uses, without, made }
    }
}

impl Shared {
    /// The native code that there is for a transaction; or what there was when a verification began, and its
    /// answer, if that came before the compiles that take long, or if these came to nothing.
    pub(crate) async fn attempt_or_answer(
        self: &Arc<Self>,
        transaction: &Transaction,
        candidates: Vec<Candidate>,
        deadline: Instant,
    ) -> Result<(Attempt, Option<Answered<VerifyReport>>), ExecuteError> {
        let VerifyOrder { tenant, tier, cycles_max, .. } = &transaction.order;
        let mut natives = self.natives(&tenant.account, candidates, *tier, deadline);
        if !natives.come().await? {
            return Ok((transaction.attempt(natives.found()), None));
        }
        let Some(slot) = self.slots.try_acquire(tenant) else {
            natives.hurry();
            natives.come_all().await?;
            return Ok((transaction.attempt(natives.found()), None));
        };
        let mut early = transaction.attempt(natives.found());
        let began = Instant::now();
        let unfinished = Unfinished::begin(&tenant.account, *cycles_max);
        let run = self.run_attempt(slot, transaction, &early, deadline);
        let run = run.instrument(tracing::debug_span!("meanwhile"));
        let answer = natives.unless_more_come(run).await;
        // One that native code overtook had a worker's time all the same.
        if !matches!(answer, Ok(None)) {
            unfinished.over();
        }
        let answer = answer?;
        let attempt = transaction.attempt(natives.found());
        let Some(answer) = answer else { return Ok((attempt, None)) };
        natives.keep_later();
        (early.uses, early.without) = (attempt.uses, attempt.without);
        Ok((early, Some(Answered { answer, began })))
    }

    /// Has a worker verify, for as long as it may.
    pub(crate) async fn run_attempt(
        &self,
        slot: Slot,
        transaction: &Transaction,
        attempt: &Attempt,
        deadline: Instant,
    ) -> Result<Lent<Verdict<VerifyReport>>, ExecuteError> {
        let (job, files, apart) =
            (attempt.job.clone(), transaction.files(attempt), transaction.apart.clone());
        let run_time = transaction.order.run_time;
        match apart {
            Some(groups) => {
                let run = move |pool: &Pool, until| {
                    files.lend(|files| apart::verify(pool, &groups, &job, files, &until))
                };
                self.lend(slot, run_time, deadline, run).await
            }
            None => self.lend_to(slot, (run_time, deadline), Verify { job, files }).await,
        }
    }
}

/// The transaction as workers read it.
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

/// A verification for whatever worker there is.
struct Verify {
    job: VerifyJob,
    files: FilesBeside,
}

impl Lendable for Verify {
    type Report = VerifyReport;

    fn begin(&self, pool: &Pool, until: Until) -> Result<Option<StartedRun<VerifyReport>>, PoolError> {
        self.files.lend(|files| pool.begin_verify(&self.job, files, until))
    }

    fn run(&self, pool: &Pool, until: Until) -> Result<Verdict<VerifyReport>, PoolError> {
        self.files.lend(|files| pool.verify(&self.job, files, until))
    }
}
