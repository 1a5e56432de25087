//! A first run does not wait for a long compile: it races against it in the interpreter.
//!
//! Only one caller of a new script gets that; later callers wait for the native code. Nobody else's work is
//! delayed: the interpreter starts only on an idle worker.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Instant,
};

use crate::race::{EarlyRun, LongCompile, PendingCode, idle_worker};
use antares_abi::CompileOptions;
use antares_pool::{
    executable_bytes,
    job::{RunJob, RunReport, Tier},
};
use antares_serve::Account;
use tracing::Instrument;

use crate::{
    artifacts::{
        Artifacts,
        library::head_start,
        prepare::{Loaded, NativeOrNot, Prepared},
    },
    ended::ExecuteError,
    execute::{Executor, order::Script},
    scheduler::lease::{Answered, ScriptRun, TimeLimits, is_answer},
    source::{Fallback, Wanted},
    tenant::Tenant,
};

/// The pending native code of one script.
struct NativeOfScript<'a, F> {
    artifacts: &'a Arc<Artifacts>,
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
        self.artifacts.wake(self.account, self.script.digest, self.options);
    }

    fn there(&self) -> usize {
        usize::from(matches!(self.found, Some((Some(_), _))))
    }

    fn keep_later(&mut self) {
        if self.found.is_some() {
            return;
        }
        let (artifacts, account) = (self.artifacts.clone(), self.account.clone());
        let wanted = Wanted::best(self.script.digest, self.options, self.script.inline.clone());
        // The next caller gets the reason for a failure.
        tokio::spawn(async move { artifacts.library(&account, wanted, None).await });
    }
}

impl Executor {
    /// Prepares a script and its native code, or returns the interpreter's answer to `job`.
    pub(crate) async fn prepare_or_run(
        &self,
        tenant: &Tenant,
        script: Script,
        job: &RunJob,
        limits: TimeLimits,
    ) -> Result<(Prepared, Option<Answered<RunReport>>), ExecuteError> {
        let (account, artifacts) = (&tenant.account, &self.artifacts);
        if job.tier != Tier::Auto {
            let prepared = artifacts.prepare(account, script, job.options, job.tier, limits.deadline).await?;
            return Ok((prepared, None));
        }
        let started = Instant::now();
        let script = artifacts.script(account, script).instrument(tracing::debug_span!("script")).await?;
        let (found, answered) = self.native_or_answer(tenant, &script, job, limits).await?;
        let mut prepared = Prepared::of(script, found, started);
        if let Some(answered) = &answered {
            prepared.fetch = answered.began - started;
        }
        Ok((prepared, answered))
    }

    /// Native code of `script`, or the reason for its absence. Returns an answer only if there is none.
    async fn native_or_answer(
        &self,
        tenant: &Tenant,
        script: &Loaded,
        job: &RunJob,
        limits: TimeLimits,
    ) -> Result<(NativeOrNot, Option<Answered<RunReport>>), ExecuteError> {
        let (artifacts, account, options) = (&self.artifacts, &tenant.account, job.options);
        let (inline, elf) = (script.inline.clone(), script.elf.clone());
        let (start, long) = head_start(move || match inline {
            Some(bytes) => executable_bytes(&bytes),
            None => elf.read().map_or(0, |elf| executable_bytes(&elf)),
        });
        let coming = artifacts.native(account, script, Some(start), options, job.tier, limits.deadline);
        let coming = pin!(coming);
        let mut native = NativeOfScript { artifacts, account, script, options, coming, long, found: None };
        let mut answered = None;
        if let Some(slot) = idle_worker(&mut native, || self.scheduler.idle_slot(tenant)).await? {
            let run = ScriptRun { job: job.clone(), elf: script.elf.clone(), library: None };
            let run = self.scheduler.lease_to(slot, limits, run);
            let run = Box::pin(run.instrument(tracing::debug_span!("meanwhile")));
            let overtaken = |time| account.ran_for(time, job.cycles_max);
            answered = EarlyRun { run, is_answer, overtaken }.race(&mut native).await?;
        }
        let found = native.found.unwrap_or_else(|| {
            self.metrics.record_fallback(Fallback::Compiling);
            (None, Some(Fallback::Compiling))
        });
        Ok((found, answered))
    }
}
