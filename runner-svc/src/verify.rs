//! One verification, from a checked order to how the scripts ended: read the transaction, get native code of
//! its programs, wait for a worker, run.

pub(crate) mod apart;
pub(crate) mod attempt;
pub(crate) mod files_beside;
pub(crate) mod hot;
pub(crate) mod hot_cells;
pub(crate) mod hot_set;
pub(crate) mod lookup;
pub(crate) mod parts;
pub(crate) mod programs;
pub(crate) mod references;
pub(crate) mod signed;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Isa};
use antares_pool::job::{CellName, GroupKind, GroupReport, Tier, VerifyReport};
use antares_serve::{Account, past_span};
use antares_transaction::{
    Environment, Mock, facts, groups, is_program, is_same_memory,
    limits::{PROGRAMS_MAX, SHARED_BYTES_MIN},
    programs,
};
use bytes::Bytes;
use tokio::time::timeout_at;
use tracing::{Instrument, Span};

use crate::{
    artifacts::native::Native,
    artifacts::ready::Used,
    charge::{Unfinished, charge_verification},
    diagnosis::{Budget, Diagnosed},
    ended::{Ended, ExecuteError, Found, Verified},
    execute::race::Turn,
    limits::READ_AT_ONCE_BYTES,
    runner::{Runner, Shared},
    tenant::Tenant,
    verify::attempt::Transaction,
    verify::hot::{Interpreted, Met},
    verify::hot_cells::HotCell,
    verify::parts::{Source, shared},
    verify::programs::{Candidate, FILES_MAX, Place, ProgramUse},
    verify::signed::Signable,
};

/// A request, checked.
#[derive(Clone, Debug)]
pub(crate) struct VerifyOrder {
    /// For whom.
    pub(crate) tenant: Tenant,
    pub(crate) arrived: Instant,
    /// How long it took to find the data that it names.
    pub(crate) resolving: Duration,
    pub(crate) source: Source,
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
    /// Whether the answer is to be signed.
    pub(crate) sign: bool,
    /// Whether the caller wants to know why a group failed, if one does.
    pub(crate) diagnosis: Option<Budget>,
}

/// A verification that came to an end.
#[derive(Clone, Debug)]
pub(crate) struct Verification {
    pub(crate) ended: Ended<Verified>,
    pub(crate) programs: Vec<ProgramUse>,
    /// Hot programs without native code that the programs above are not.
    pub(crate) interpreted: Vec<Interpreted>,
    pub(crate) parse: Duration,
    /// Finding cells and native code.
    pub(crate) fetch: Duration,
    /// Waiting for a worker, and the ways to it and back.
    pub(crate) queue: Duration,
    /// From its arrival to its end.
    pub(crate) wall: Duration,
    /// What the sample points followed from; none where runs are not sampled.
    pub(crate) sample_salt: Option<u64>,
    pub(crate) recheck: Option<Found>,
    /// What there is to sign, if that is wanted.
    pub(crate) signable: Option<Box<Signable>>,
    pub(crate) diagnosis: Option<Diagnosed>,
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
        order.tenant.account.may_run().map_err(ExecuteError::Quota)?;
        let (arrived, resolving, field) = (order.arrived, order.resolving, order.source.field());
        let started = Instant::now();
        let told = self.read(order).instrument(tracing::debug_span!("transaction")).await?;
        let Told { transaction, mut candidates } = told;
        let (parse, started) = (started.elapsed(), Instant::now());
        let mut met = met(&candidates);
        candidates.extend(self.hot.find(&met.cells).into_iter().map(Candidate::from));
        let span = tracing::debug_span!("artifacts", count = candidates.len());
        let (attempt, answered) =
            self.attempt_or_answer(&transaction, candidates, deadline).instrument(span).await?;
        let fetch = answered.as_ref().map_or_else(|| started.elapsed(), |early| early.began - started);
        let fetch = resolving + fetch.saturating_sub(attempt.made);
        let (order, account) = (&transaction.order, &transaction.order.tenant.account);
        let (turn, mut queue) =
            self.turn(&order.tenant, answered).instrument(tracing::debug_span!("queue")).await?;
        attempt.without.iter().for_each(|(_, why)| self.metrics.note_fallback(*why));
        self.metrics.note_native(attempt.libraries.iter().map(|native| native.tier), 1);
        let keys: Vec<_> = attempt.libraries.iter().map(|native| Used::of(account, native.key)).collect();
        let again = || transaction.again(&attempt);
        let draw = |()| self.recheck.draw(order.recheck, 1, order.run_time, again);
        let second = (!keys.is_empty()).then_some(()).and_then(draw);
        let failing = order.diagnosis.as_ref().map(|_| again());
        let work = async {
            let (lent, began) = match turn {
                Turn::Worker(slot) => {
                    let began = Instant::now();
                    let unfinished = Unfinished::begin(account, order.cycles_max);
                    let lent = self.run_attempt(slot, &transaction, &attempt, deadline).await;
                    unfinished.over();
                    (lent?, began)
                }
                Turn::Answered(answered) => (answered.answer, answered.began),
            };
            charge_verification(account, &lent.answer, began.elapsed(), order.cycles_max);
            let ended = self.judge(lent, &keys)?;
            if let Ended::Reported(VerifyReport::Done { read_us, run_us, .. }) = &ended {
                queue += began.elapsed().saturating_sub(Duration::from_micros(read_us + run_us));
                tell_spans(*read_us, *run_us);
            }
            Ok::<_, ExecuteError>(ended)
        };
        let ended = work.instrument(tracing::debug_span!("worker")).await?;
        met.without = attempt.without;
        let (mut ended, interpreted) = self.take_in((order, field), ended, &met, &attempt.libraries)?;
        let mut recheck = None;
        if let (Some(second), Ended::Reported(first)) = (second, &mut ended) {
            (*first, recheck) = self.recheck(&order.tenant, &keys, second, first.clone()).await;
        }
        let mut diagnosis = None;
        if let (Some(budget), Some(failing)) = (&order.diagnosis, failing) {
            diagnosis = self.why_group(&order.tenant, &keys, (failing, budget), &ended, deadline).await;
        }
        let sample_salt = (attempt.job.sample_cycles > 0).then_some(attempt.job.sample_salt);
        let (programs, wall, signable) = (attempt.uses, arrived.elapsed(), transaction.signable);
        Ok(Verification {
            ended,
            programs,
            interpreted,
            parse,
            fetch,
            queue,
            wall,
            sample_salt,
            recheck,
            signable,
            diagnosis,
        })
    }

    /// Keeps what a worker told beside the verdict, for later. Gives the verdict, and which programs were
    /// hot.
    fn take_in(
        self: &Arc<Self>,
        (order, field): (&VerifyOrder, &str),
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
                let field = place(path.as_deref()).unwrap_or(field).to_owned();
                Err(ExecuteError::Transaction { field, problem: detail })
            }
        }
    }

    /// Reads the transaction: whether it can be used, and what is in it. Large data and programs in it become
    /// hot cells.
    async fn read(&self, mut order: VerifyOrder) -> Result<Told, ExecuteError> {
        let field = order.source.field();
        let source = std::mem::replace(&mut order.source, Source::Json(Bytes::new()));
        let parsed = if source.bytes() <= READ_AT_ONCE_BYTES {
            source.read()
        } else {
            // The semaphore is never closed.
            let reading = self.reading.clone().acquire_owned().await.map_err(|_| ExecuteError::Internal)?;
            let span = Span::current();
            let read = tokio::task::spawn_blocking(move || {
                // Also when nobody waits for it any more.
                let _reading = reading;
                span.in_scope(|| source.read())
            });
            // It panicked; the hook has told where.
            read.await.map_err(|_| ExecuteError::Internal)?
        };
        let (mut mock, mut cells) = parsed.map_err(|error| ExecuteError::Transaction {
            field: place(error.path()).unwrap_or(field).to_owned(),
            problem: error.to_string(),
        })?;
        self.share(&order.tenant.account, &mut mock, &mut cells).await?;
        let signable = if order.sign { Some(self.signable(&order, &mock).await?) } else { None };
        let groups = groups(&mock);
        let candidates =
            if order.tier == Tier::Interpreter { Vec::new() } else { candidates(&order, &mock, &cells) };
        let beside = FILES_MAX - candidates.len();
        let mut transaction = Transaction::new(order, (&mock, cells, beside), groups, &self.limits).await?;
        transaction.signable = signable;
        Ok(Told { transaction, candidates })
    }

    /// What a signed verdict on `mock` is about. Data that is not hot is hashed for it.
    async fn signable(&self, order: &VerifyOrder, mock: &Mock) -> Result<Box<Signable>, ExecuteError> {
        // The semaphore is never closed.
        let reading = self.reading.clone().acquire_owned().await.map_err(|_| ExecuteError::Internal)?;
        let (mock, environment) = (mock.clone(), order.environment);
        let facts = tokio::task::spawn_blocking(move || {
            let _reading = reading;
            facts(&mock, &environment)
        });
        Ok(Box::new(Signable {
            // It panicked; the hook has told where.
            facts: facts.await.map_err(|_| ExecuteError::Internal)?,
            environment,
            cycles_max: order.cycles_max,
            is_one_group: order.group.is_some(),
        }))
    }

    /// Makes hot cells of the data that is worth it and came with the call.
    async fn share(
        &self,
        account: &Account,
        mock: &mut Mock,
        cells: &mut Vec<Arc<HotCell>>,
    ) -> Result<(), ExecuteError> {
        let is_wanted = |data: &Bytes| data.len() >= SHARED_BYTES_MIN || is_program(data);
        let mut found: Vec<(Bytes, Arc<HotCell>)> = Vec::new();
        for data in mock.unhashed(is_wanted) {
            if found.len() < FILES_MAX && !found.iter().any(|(known, _)| is_same_memory(known, &data)) {
                found.push((data.clone(), self.hot_cells.keep(account, data).await?));
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        mock.take_shared(|data| {
            let cell = found.iter().find(|(known, _)| is_same_memory(known, data)).map(|(_, cell)| cell)?;
            Some(shared(cell))
        });
        cells.extend(found.into_iter().map(|(_, cell)| cell));
        Ok(())
    }
}

/// What a transaction tells before anything runs.
struct Told {
    transaction: Transaction,
    /// What is worth compiling.
    candidates: Vec<Candidate>,
}

fn candidates(order: &VerifyOrder, mock: &Mock, cells: &[Arc<HotCell>]) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for program in programs(mock, &order.environment) {
        let hot = cells.iter().find(|cell| cell.data_hash == program.data_hash);
        let digest = hot.map_or_else(|| antares_pool::digest(&program.elf), |cell| cell.sealed.digest());
        for vm_version in program.vm_versions {
            let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
            let (place, elf) = (Place::Cell(program.data_hash), program.elf.clone());
            candidates.push(Candidate { place, digest, elf, options });
        }
    }
    candidates.truncate(PROGRAMS_MAX);
    candidates
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
