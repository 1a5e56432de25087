//! One verification, from a checked order to how the scripts ended: read the transaction, get native code of its programs,
//! wait for a worker, run.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Isa, Sha256Digest};
use antares_pool::job::{CellName, GroupKind, GroupReport, Tier, TransactionForm, VerifyReport};
use antares_serve::past_span;
use antares_transaction::{
    Environment, Fields, Group, Mock, MockError, groups, limits::PROGRAMS_MAX, programs,
};
use bytes::Bytes;
use tokio::time::timeout_at;
use tracing::{Instrument, Span};

use crate::{
    attempt::Transaction,
    charge::charge_verification,
    ended::{Ended, ExecuteError, Found, Verified},
    hot::{Interpreted, Met},
    library::seal,
    meanwhile::Turn,
    native::Native,
    programs::{Candidate, Place, ProgramUse},
    ready::Used,
    recheck::VerifyAgain,
    runner::{Runner, Shared},
    tenant::Tenant,
};

/// A request, checked.
#[derive(Clone, Debug)]
pub(crate) struct VerifyOrder {
    /// For whom.
    pub(crate) tenant: Tenant,
    pub(crate) form: TransactionForm,
    /// The transaction in that form.
    pub(crate) transaction: Bytes,
    pub(crate) environment: Environment,
    pub(crate) group: Option<(GroupKind, CellName)>,
    pub(crate) tier: Tier,
    pub(crate) cycles_max: u64,
    pub(crate) debug_bytes_max: u64,
    /// Wall time of the verification in its worker.
    pub(crate) run_time: Duration,
    /// What the sample points shall follow from, if the caller says.
    pub(crate) sample_salt: Option<u64>,
    /// Whether the caller wants it run again, and compared.
    pub(crate) recheck: bool,
}

/// A verification that came to an end.
#[derive(Clone, Debug)]
pub(crate) struct Verification {
    pub(crate) ended: Ended<Verified>,
    pub(crate) programs: Vec<ProgramUse>,
    /// Hot programs without native code that the programs above are not.
    pub(crate) interpreted: Vec<Interpreted>,
    pub(crate) fetch: Duration,
    pub(crate) queue: Duration,
    /// What the sample points followed from; none where runs are not sampled.
    pub(crate) sample_salt: Option<u64>,
    pub(crate) recheck: Option<Found>,
}

impl Runner {
    /// Verifies what `order` says. Waits as [`Runner::execute`] does.
    pub(crate) async fn verify(
        &self,
        order: VerifyOrder,
        deadline: Instant,
    ) -> Result<Verification, ExecuteError> {
        let steps = self.shared.clone().verify_steps(order, deadline);
        let result = timeout_at(deadline.into(), steps).await.unwrap_or(Err(ExecuteError::CallDeadline));
        let told = result.as_ref().map(|verification| (&verification.ended, verification.queue));
        self.shared.metrics.note_verification(told);
        result
    }
}

impl Shared {
    async fn verify_steps(
        self: Arc<Self>,
        order: VerifyOrder,
        deadline: Instant,
    ) -> Result<Verification, ExecuteError> {
        let started = Instant::now();
        order.tenant.account.may_run().map_err(ExecuteError::Quota)?;
        let Told { mut candidates, groups } =
            self.read(&order).instrument(tracing::info_span!("transaction")).await?;
        let mut met = met(&candidates);
        candidates.extend(self.hot.find(&met.cells).into_iter().map(Candidate::from));
        let sealed = Arc::new(seal("antares-transaction", order.transaction.clone()).await?);
        let transaction = Transaction::new(order, sealed, groups, &self.limits);
        let span = tracing::info_span!("artifacts", count = candidates.len());
        let (attempt, answered) =
            self.attempt_or_answer(&transaction, candidates, deadline).instrument(span).await?;
        let fetch = answered.as_ref().map_or_else(|| started.elapsed(), |early| early.began - started);
        let fetch = fetch.saturating_sub(attempt.made);
        let (order, account) = (&transaction.order, &transaction.order.tenant.account);
        let (turn, queue) =
            self.turn(&order.tenant, answered).instrument(tracing::info_span!("queue")).await?;
        attempt.without.iter().for_each(|(_, why)| self.metrics.note_fallback(*why));
        self.metrics.note_native(attempt.libraries.iter().map(|native| native.tier), 1);
        let keys: Vec<_> = attempt.libraries.iter().map(|native| Used::of(account, native.key)).collect();
        let again = || VerifyAgain { job: attempt.job.clone(), transaction: transaction.sealed.clone() };
        let draw = |()| self.recheck.draw(order.recheck, 1, order.run_time, again);
        let second = (!keys.is_empty()).then_some(()).and_then(draw);
        let work = async {
            let (lent, began) = match turn {
                Turn::Worker(slot) => {
                    let began = Instant::now();
                    (self.run_attempt(slot, &transaction, &attempt, deadline).await?, began)
                }
                Turn::Answered(lent, began) => (lent, began),
            };
            charge_verification(account, &lent.answer, began.elapsed(), order.cycles_max);
            let ended = self.judge(lent, &keys)?;
            if let Ended::Reported(VerifyReport::Done { read_us, run_us, .. }) = &ended {
                tell_spans(*read_us, *run_us);
            }
            Ok::<_, ExecuteError>(ended)
        };
        let ended = work.instrument(tracing::info_span!("worker")).await?;
        met.without = attempt.without;
        let (mut ended, interpreted) = self.take_in(order, ended, &met, &attempt.libraries)?;
        let mut recheck = None;
        if let (Some(second), Ended::Reported(first)) = (second, &mut ended) {
            (*first, recheck) = self.recheck(&order.tenant, &keys, second, first.clone()).await;
        }
        let sample_salt = (attempt.job.sample_cycles > 0).then_some(attempt.job.sample_salt);
        Ok(Verification { ended, programs: attempt.uses, interpreted, fetch, queue, sample_salt, recheck })
    }

    /// Keeps what a worker told beside the verdict, for later. Gives the verdict, and which programs were hot.
    fn take_in(
        self: &Arc<Self>,
        order: &VerifyOrder,
        ended: Ended<VerifyReport>,
        met: &Met,
        learning: &[Native],
    ) -> Result<(Ended<Verified>, Vec<Interpreted>), ExecuteError> {
        let report = match ended {
            Ended::Reported(report) => report,
            Ended::DeadlineExceeded => return Ok((Ended::DeadlineExceeded, Vec::new())),
            Ended::SandboxViolation { detail } => {
                return Ok((Ended::SandboxViolation { detail }, Vec::new()));
            }
        };
        let VerifyOrder { tenant, .. } = order;
        match report {
            VerifyReport::Done { outcome, cycles, groups, hot, seen, ran, samples, read_us, run_us } => {
                self.note_ran(&tenant.account, learning, ran);
                let native = native_cycles(&groups);
                self.keep_samples(&tenant.name, None, samples.as_deref(), (cycles, native));
                let interpreted = self.learn(&tenant.account, hot, met);
                for (number, seen) in seen {
                    let native = usize::try_from(number).ok().and_then(|number| learning.get(number));
                    native
                        .into_iter()
                        .for_each(|native| self.learn_seen(&tenant.account, native, seen.clone()));
                }
                let verified = Verified { outcome, cycles, groups, read_us, run_us };
                Ok((Ended::Reported(verified), interpreted))
            }
            VerifyReport::Refused { path, detail } => {
                let field = place(path.as_deref()).unwrap_or(field_of(order.form)).to_owned();
                Err(ExecuteError::Transaction { field, problem: detail })
            }
        }
    }

    /// Reads the transaction: whether it can be used, and what is in it.
    async fn read(&self, order: &VerifyOrder) -> Result<Told, ExecuteError> {
        // The semaphore is never closed.
        let reading = self.reading.clone().acquire_owned().await.map_err(|_| ExecuteError::Internal)?;
        let (order, span) = (order.clone(), Span::current());
        let read = tokio::task::spawn_blocking(move || {
            // Also when nobody waits for it any more.
            let _reading = reading;
            span.in_scope(|| read(&order))
        });
        // It panicked; the hook has told where.
        read.await.map_err(|_| ExecuteError::Internal)?
    }
}

/// What a transaction tells before anything runs.
struct Told {
    /// What is worth compiling.
    candidates: Vec<Candidate>,
    groups: Vec<Group>,
}

fn read(order: &VerifyOrder) -> Result<Told, ExecuteError> {
    let mock = parse(order.form, &order.transaction).map_err(|error| ExecuteError::Transaction {
        field: place(error.path()).unwrap_or(field_of(order.form)).to_owned(),
        problem: error.to_string(),
    })?;
    let groups = groups(&mock);
    if order.tier == Tier::Interpreter {
        return Ok(Told { candidates: Vec::new(), groups });
    }
    let mut candidates = Vec::new();
    for program in programs(&mock, &order.environment) {
        let digest = Sha256Digest::of(&program.elf);
        for vm_version in program.vm_versions {
            let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
            let (place, elf) = (Place::Cell(program.data_hash), program.elf.clone());
            candidates.push(Candidate { place, digest, elf, options });
        }
    }
    candidates.truncate(PROGRAMS_MAX);
    Ok(Told { candidates, groups })
}

/// Where these candidates are, for programs that turn out to be hot beside them.
fn met(candidates: &[Candidate]) -> Met {
    let mut met = Met::default();
    for candidate in candidates {
        if let Place::Cell(data_hash) = candidate.place {
            met.cells.push(data_hash);
        }
        met.digests.push(candidate.digest);
        if !met.options.contains(&candidate.options) {
            met.options.push(candidate.options);
        }
    }
    met
}

/// A path in a transaction, unless it is that of the whole.
fn place(path: Option<&str>) -> Option<&str> {
    path.filter(|path| !matches!(*path, "" | "."))
}

fn parse(form: TransactionForm, transaction: &[u8]) -> Result<Mock, MockError> {
    match form {
        TransactionForm::Json => Mock::from_json(transaction),
        TransactionForm::Molecule => {
            let fields: Fields<'_> = postcard::from_bytes(transaction).map_err(|error| {
                MockError::Molecule { path: field_of(form).to_owned(), detail: error.to_string() }
            })?;
            Mock::from_molecule(&fields)
        }
    }
}

/// The field of the request that has the transaction.
fn field_of(form: TransactionForm) -> &'static str {
    match form {
        TransactionForm::Json => "mock_json",
        TransactionForm::Molecule => "fields",
    }
}

fn native_cycles(groups: &[GroupReport]) -> u64 {
    groups.iter().map(|group| group.native_cycles).fold(0, u64::saturating_add)
}

/// The worker's own times as spans: it ended about now, ran before that, and read before that.
fn tell_spans(read_us: u64, run_us: u64) {
    let (read, run) = (Duration::from_micros(read_us), Duration::from_micros(run_us));
    let end = std::time::SystemTime::now();
    past_span("read", end - run - read, read, Vec::new());
    past_span("run", end - run, run, Vec::new());
}
