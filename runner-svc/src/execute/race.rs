//! A first run does not wait for a long compile: it races against it in the interpreter.
//!
//! One caller of a new script gets that; whoever asks while it is compiled waits for its native code. Nobody
//! else's work is delayed: the interpreter begins only where a worker has nothing to do.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::CompileOptions;
use antares_pool::{
    Verdict, executable_bytes,
    job::{RunJob, RunReport, Tier},
};
use antares_race::{EarlyRun, Interpreted, LongCompile, PendingCode, idle_worker};
use antares_serve::Account;
use tracing::Instrument;

use crate::{
    artifacts::flight::flight,
    artifacts::library::head_start,
    artifacts::prepare::{Loaded, NativeOrNot, Prepared},
    ended::ExecuteError,
    execute::order::Script,
    runner::Shared,
    scheduler::lease::{Lent, is_answer},
    scheduler::queue::Slot,
    source::Fallback,
    tenant::Tenant,
};

/// The interpreter's answer to a call that did not wait for native code.
pub(crate) type Answered<R> = Interpreted<Lent<Verdict<R>>>;

/// What comes of a run when it is its turn.
pub(crate) enum Turn<R> {
    Worker(Slot),
    Answered(Answered<R>),
}

/// The native code of one script, on its way.
struct NativeOfScript<'a, F> {
    shared: &'a Arc<Shared>,
    account: &'a Account,
    script: &'a Loaded,
    options: CompileOptions,
    coming: Pin<&'a mut F>,
    long: LongCompile,
    found: Option<NativeOrNot>,
}

impl<F: Future<Output = Result<NativeOrNot, ExecuteError>> + Send> PendingCode for NativeOfScript<'_, F> {
    type Error = ExecuteError;

    async fn until_long(&mut self) -> Result<bool, ExecuteError> {
        tokio::select! {
            biased;
            found = &mut self.coming => self.found = Some(found?),
            true = self.long.begins() => return Ok(true),
        }
        Ok(false)
    }

    async fn rest(&mut self) -> Result<(), ExecuteError> {
        if self.found.is_none() {
            self.found = Some((&mut self.coming).await?);
        }
        Ok(())
    }

    fn wake(&self) {
        self.shared.libraries.hurry(&flight(self.account, (self.script.digest, self.options), None));
    }

    fn there(&self) -> usize {
        usize::from(matches!(self.found, Some((Some(_), _))))
    }

    fn keep_later(&mut self) {
        if self.found.is_some() {
            return;
        }
        let (shared, account, options) = (self.shared.clone(), self.account.clone(), self.options);
        let (digest, elf) = (self.script.digest, self.script.inline.clone());
        // Why there is none is told to whoever asks next.
        tokio::spawn(async move { shared.library(&account, digest, elf.as_ref(), options).await });
    }
}

impl Shared {
    /// Gets a script and its native code, or else the interpreter's answer to `job`, which may take
    /// `run_time`.
    pub(crate) async fn prepare_or_run(
        self: &Arc<Self>,
        tenant: &Tenant,
        script: Script,
        job: &RunJob,
        (run_time, deadline): (Duration, Instant),
    ) -> Result<(Prepared, Option<Answered<RunReport>>), ExecuteError> {
        let account = &tenant.account;
        if job.tier != Tier::Auto {
            let prepared = self.prepare(account, script, job.options, job.tier, deadline).await?;
            return Ok((prepared, None));
        }
        let started = Instant::now();
        let script = self.script(account, script).instrument(tracing::debug_span!("script")).await?;
        let (found, answered) = self.native_or_answer(tenant, &script, job, (run_time, deadline)).await?;
        let mut prepared = Prepared::of(script, found, started);
        if let Some(answered) = &answered {
            prepared.fetch = answered.began - started;
        }
        Ok((prepared, answered))
    }

    /// Native code of `script`, or why there is none; an answer only if there is none.
    async fn native_or_answer(
        self: &Arc<Self>,
        tenant: &Tenant,
        script: &Loaded,
        job: &RunJob,
        (run_time, deadline): (Duration, Instant),
    ) -> Result<(NativeOrNot, Option<Answered<RunReport>>), ExecuteError> {
        let (account, options, cycles_max) = (&tenant.account, job.options, job.cycles_max);
        let (inline, elf) = (script.inline.clone(), script.elf.clone());
        let (start, long) = head_start(move || match inline {
            Some(bytes) => executable_bytes(&bytes),
            None => elf.read().map_or(0, |elf| executable_bytes(&elf)),
        });
        let coming = pin!(self.native(account, (script, Some(start)), options, job.tier, deadline));
        let mut native = NativeOfScript { shared: self, account, script, options, coming, long, found: None };
        let mut answered = None;
        if let Some(slot) = idle_worker(&mut native, || self.slots.try_acquire(tenant)).await? {
            let run = self.run_one(slot, run_time, deadline, job.clone(), script.elf.clone(), None);
            let run = run.instrument(tracing::debug_span!("meanwhile"));
            let overtaken = |time| account.ran_for(time, cycles_max);
            answered = EarlyRun { run, is_answer, overtaken }.race(&mut native).await?;
        }
        let found = native.found.unwrap_or_else(|| {
            self.metrics.note_fallback(Fallback::Compiling);
            (None, Some(Fallback::Compiling))
        });
        Ok((found, answered))
    }

    /// Waits for the turn of `tenant`, unless there is an answer already. Gives how long that was.
    pub(crate) async fn turn<R>(
        &self,
        tenant: &Tenant,
        answered: Option<Answered<R>>,
    ) -> Result<(Turn<R>, Duration), ExecuteError> {
        match answered {
            Some(answered) => Ok((Turn::Answered(answered), Duration::ZERO)),
            None => self.slot(tenant).await.map(|(slot, queue)| (Turn::Worker(slot), queue)),
        }
    }
}
