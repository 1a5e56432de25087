//! A first run does not wait for a long compile: the interpreter begins meanwhile, and whoever is done first has it.
//!
//! One caller of a new script gets that; whoever asks while it is compiled waits for its native code. Nobody else's work
//! is delayed: the interpreter begins only where a worker has nothing to do.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::CompileOptions;
use antares_pool::{
    LONG_COMPILE_BYTES, Sealed, Verdict, executable_bytes,
    job::{RunJob, RunReport, Tier},
};
use antares_serve::Account;
use tokio::{sync::oneshot, time::timeout};
use tracing::Instrument;

use crate::{
    ended::ExecuteError,
    lend::Lent,
    library::flight,
    order::Script,
    prepare::{Loaded, NativeOrNot, Prepared},
    queue::Slot,
    runner::Shared,
    source::Fallback,
    tenant::Tenant,
};

/// The interpreter has the processor for so long before a compile begins that nobody else waits for: both at once slow each other down
/// where they share a core.
const HEAD_START: Duration = Duration::from_millis(120);

/// What a worker gave for a run.
type Answer = Lent<Verdict<RunReport>>;

/// The interpreter's answer to a run that did not wait for native code.
pub(crate) struct Answered {
    answer: Answer,
    began: Instant,
}

/// A run that may begin before native code is there. Its script is stored by then, as if it had waited.
pub(crate) struct Early {
    elf: Arc<Sealed>,
    begin: oneshot::Sender<()>,
}

impl Early {
    /// Whether the compile takes long.
    pub(crate) fn is_long(&self) -> bool {
        self.elf.read().is_ok_and(|elf| executable_bytes(&elf) >= LONG_COMPILE_BYTES)
    }

    /// Lets it run for a while, or until `hurried`; then the compile is to begin.
    pub(crate) async fn run_until(self, hurried: impl Future<Output = ()>) {
        if self.begin.send(()).is_ok() {
            // In time or not.
            let _ = timeout(HEAD_START, hurried).await;
        }
    }
}

/// What comes of a run when it is its turn.
pub(crate) enum Turn {
    Worker(Slot),
    /// It was answered before, and began then.
    Answered(Answer, Instant),
}

impl Shared {
    /// Gets a script and its native code, or else the interpreter's answer to `job`, which may take `run_time`.
    pub(crate) async fn prepare_or_run(
        self: &Arc<Self>,
        tenant: &Tenant,
        script: Script,
        job: &RunJob,
        (run_time, deadline): (Duration, Instant),
    ) -> Result<(Prepared, Option<Answered>), ExecuteError> {
        let account = &tenant.account;
        if job.tier != Tier::Auto {
            let prepared = self.prepare(account, script, job.options, job.tier, deadline).await?;
            return Ok((prepared, None));
        }
        let started = Instant::now();
        let script = self.script(account, script).instrument(tracing::info_span!("script")).await?;
        let (found, answered) = self.native_or_answer(tenant, &script, job, (run_time, deadline)).await?;
        let mut prepared = Prepared::of(script, found, started);
        if let Some(answered) = &answered {
            prepared.fetch = answered.began - started;
        }
        if prepared.fallback == Some(Fallback::Compiling) {
            self.keep_later(account, &prepared.script, job.options);
        }
        Ok((prepared, answered))
    }

    /// Keeps native code ready when it has come: whoever asked for it has gone on without.
    fn keep_later(self: &Arc<Self>, account: &Account, script: &Loaded, options: CompileOptions) {
        let (shared, account) = (self.clone(), account.clone());
        let (digest, elf) = (script.digest, script.inline.clone());
        // Why there is none is told to whoever asks next.
        tokio::spawn(async move { shared.library(&account, digest, elf.as_ref(), options).await });
    }

    /// Native code of `script`, or why there is none; an answer only if there is none. A run that has begun goes on where no native
    /// code comes.
    async fn native_or_answer(
        &self,
        tenant: &Tenant,
        script: &Loaded,
        job: &RunJob,
        (run_time, deadline): (Duration, Instant),
    ) -> Result<(NativeOrNot, Option<Answered>), ExecuteError> {
        let account = &tenant.account;
        let flight = flight(account, (script.digest, job.options), None);
        let (begin, begins) = oneshot::channel();
        let early = Early { elf: script.elf.clone(), begin };
        let mut native = pin!(self.native(account, (script, Some(early)), job.options, job.tier, deadline));
        let is_early = tokio::select! {
            biased;
            found = &mut native => return Ok((found?, None)),
            // Dropped where another one is the first, where the compile is short, and where there is native code.
            begins = begins => begins.is_ok(),
        };
        let Some(slot) = is_early.then(|| self.slots.try_acquire(tenant)).flatten() else {
            self.libraries.hurry(&flight);
            return Ok((native.await?, None));
        };
        let began = Instant::now();
        let run = self.run_one(slot, run_time, deadline, job.clone(), script.elf.clone(), None);
        let mut run = pin!(run.instrument(tracing::info_span!("meanwhile")));
        let mut ended = None;
        let found = tokio::select! {
            biased;
            found = &mut native => found,
            answered = &mut run => match answered {
                Ok(answer @ Lent { answer: Verdict::Done(_) | Verdict::SandboxViolation { .. }, .. }) => {
                    self.metrics.note_fallback(Fallback::Compiling);
                    return Ok(((None, Some(Fallback::Compiling)), Some(Answered { answer, began })));
                }
                // Native code may manage in time what the interpreter does not.
                other => {
                    ended = Some(other);
                    self.libraries.hurry(&flight);
                    native.await
                }
            },
        };
        if let Ok((None, _)) = found {
            let answer = match ended {
                Some(ended) => ended?,
                None => run.await?,
            };
            return Ok((found?, Some(Answered { answer, began })));
        }
        // What the interpreter had of a worker's time was its caller's all the same.
        account.ran_for(began.elapsed(), job.cycles_max);
        Ok((found?, None))
    }

    /// Waits for the turn of `tenant`, unless there is an answer already. Gives how long that was.
    pub(crate) async fn turn(
        &self,
        tenant: &Tenant,
        answered: Option<Answered>,
    ) -> Result<(Turn, Duration), ExecuteError> {
        match answered {
            Some(Answered { answer, began }) => Ok((Turn::Answered(answer, began), Duration::ZERO)),
            None => self.slot(tenant).await.map(|(slot, queue)| (Turn::Worker(slot), queue)),
        }
    }
}
