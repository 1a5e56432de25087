//! A transaction with the native code that there is for it. The first verification does not wait for a long compile: one begins without
//! that code, and whoever is done first has the answer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_pool::{
    Pool, Sealed, Verdict,
    job::{LibraryOf, Rules, VerifyJob, VerifyReport},
};
use antares_serve::RawRunner;
use antares_transaction::{Environment, Group};
use tracing::Instrument;

use crate::{
    apart,
    ended::ExecuteError,
    lend::Lent,
    meanwhile::Answered,
    native::Native,
    programs::{Candidate, FoundProgram, ProgramUse, files},
    queue::Slot,
    runner::Shared,
    sampling::next_salt,
    source::Fallback,
    verify::VerifyOrder,
};

/// A transaction, whatever native code there is.
pub(crate) struct Transaction {
    pub(crate) order: VerifyOrder,
    pub(crate) sealed: Arc<Sealed>,
    /// Its groups, if each is verified in a worker of its own.
    apart: Option<Vec<Group>>,
    sample_cycles: u64,
    sample_salt: u64,
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
    pub(crate) fn new(
        order: VerifyOrder,
        sealed: Arc<Sealed>,
        groups: Vec<Group>,
        limits: &RawRunner,
    ) -> Self {
        let apart = (limits.groups_apart && order.group.is_none()).then_some(groups);
        let sample_salt = order.sample_salt.unwrap_or_else(next_salt);
        Self { order, sealed, apart, sample_cycles: limits.sample_cycles, sample_salt }
    }

    fn job(&self, libraries: Vec<LibraryOf>) -> VerifyJob {
        let VerifyOrder { form, group, tier, cycles_max, debug_bytes_max, .. } = self.order;
        let Environment { vm_1_epoch, vm_2_epoch, epoch } = self.order.environment;
        VerifyJob {
            form,
            rules: Rules { vm_1_epoch, vm_2_epoch, epoch },
            group,
            tier,
            cycles_max,
            debug_bytes_max,
            transaction_bytes: self.sealed.len(),
            libraries,
            sample_cycles: self.sample_cycles,
            sample_salt: self.sample_salt,
        }
    }

    fn attempt(&self, programs: Vec<FoundProgram>) -> Attempt {
        let uses = programs.iter().filter_map(FoundProgram::to_use).collect();
        let without = programs.iter().map(FoundProgram::fallback);
        let without = without.filter_map(|(digest, fallback)| Some((digest, fallback?))).collect();
        let made_ms = programs.iter().filter_map(|program| program.native.as_ref()?.made_ms).max();
        let (libraries, beside) = files(programs);
        let (of, libraries) = libraries.into_iter().unzip();
        let made = Duration::from_millis(made_ms.unwrap_or(0));
        Attempt { job: self.job(of), libraries, beside, uses, without, made }
    }
}

impl Shared {
    /// The native code that there is for a transaction; or what there was when a verification began, and its answer, if that came before
    /// the compiles that take long, or if these came to nothing.
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
        let run = self.run_attempt(slot, transaction, &early, deadline);
        let run = run.instrument(tracing::info_span!("meanwhile"));
        let answer = natives.unless_more_come(run).await?;
        let attempt = transaction.attempt(natives.found());
        let Some(answer) = answer else {
            // What it had of a worker's time was its caller's all the same.
            tenant.account.ran_for(began.elapsed(), *cycles_max);
            return Ok((attempt, None));
        };
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
        let (job, sealed, apart) =
            (attempt.job.clone(), transaction.sealed.clone(), transaction.apart.clone());
        let libraries = attempt.libraries.iter().map(|native| &native.library);
        let files: Vec<Arc<Sealed>> = libraries.chain(&attempt.beside).cloned().collect();
        let run = move |pool: &Pool, until| {
            let files: Vec<&Sealed> = files.iter().map(|file| &**file).collect();
            match apart {
                Some(groups) => apart::verify(pool, &groups, &job, (&sealed, &files), &until),
                None => pool.verify(&job, &sealed, &files, until),
            }
        };
        self.lend(slot, transaction.order.run_time, deadline, run).await
    }
}
