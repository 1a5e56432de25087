//! A first run does not wait for a long compile: the interpreter begins meanwhile, and whoever is done first
//! has it.
//!
//! One caller of a new script gets that; whoever asks while it is compiled waits for its native code. Nobody
//! else's work is delayed: the interpreter begins only where a worker has nothing to do.

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
use bytes::Bytes;
use tokio::{sync::oneshot, time::timeout};
use tracing::Instrument;

use crate::{
    charge::Unfinished,
    ended::ExecuteError,
    flight::flight,
    lend::Lent,
    order::Script,
    prepare::{Loaded, NativeOrNot, Prepared},
    queue::Slot,
    runner::Shared,
    source::Fallback,
    tenant::Tenant,
};

/// The interpreter has the processor for so long before a compile begins that nobody else waits for: both at
/// once slow each other down where they share a core.
const HEAD_START: Duration = Duration::from_millis(120);

/// What a worker gave.
type Answer<R> = Lent<Verdict<R>>;

/// The interpreter's answer to a call that did not wait for native code.
pub(crate) struct Answered<R> {
    pub(crate) answer: Answer<R>,
    pub(crate) began: Instant,
}

/// A run that may begin before native code is there. Its script is stored by then, as if it had waited.
pub(crate) struct Early {
    elf: Option<Arc<Sealed>>,
    begin: oneshot::Sender<()>,
}

impl Early {
    /// One of a script that is `elf` where its bytes do not come along; and what tells that it may begin.
    /// That is dropped where another one is the first, where the compile is short, and where there is native
    /// code.
    pub(crate) fn new(elf: Option<Arc<Sealed>>) -> (Self, oneshot::Receiver<()>) {
        let (begin, begins) = oneshot::channel();
        (Self { elf, begin }, begins)
    }

    /// Whether the compile takes long, of a script with these `bytes` if they are at hand.
    pub(crate) fn is_long(&self, bytes: Option<&Bytes>) -> bool {
        let code = match (bytes, &self.elf) {
            (Some(bytes), _) => executable_bytes(bytes),
            (None, Some(elf)) => elf.read().map_or(0, |elf| executable_bytes(&elf)),
            (None, None) => 0,
        };
        code >= LONG_COMPILE_BYTES
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
pub(crate) enum Turn<R> {
    Worker(Slot),
    /// It was answered before, and began then.
    Answered(Answer<R>, Instant),
}

impl<R> Answered<R> {
    /// Whether `answer` is one, and no end of a worker or of its time: native code may manage in time what
    /// the interpreter does not.
    pub(crate) fn is_one(answer: &Answer<R>) -> bool {
        matches!(answer.answer, Verdict::Done(_) | Verdict::SandboxViolation { .. })
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

    /// Native code of `script`, or why there is none; an answer only if there is none. A run that has begun
    /// goes on where no native code comes.
    async fn native_or_answer(
        &self,
        tenant: &Tenant,
        script: &Loaded,
        job: &RunJob,
        (run_time, deadline): (Duration, Instant),
    ) -> Result<(NativeOrNot, Option<Answered<RunReport>>), ExecuteError> {
        let account = &tenant.account;
        let flight = flight(account, (script.digest, job.options), None);
        let (early, begins) = Early::new(Some(script.elf.clone()));
        let mut native = pin!(self.native(account, (script, Some(early)), job.options, job.tier, deadline));
        let is_early = tokio::select! {
            biased;
            found = &mut native => return Ok((found?, None)),
            begins = begins => begins.is_ok(),
        };
        let Some(slot) = is_early.then(|| self.slots.try_acquire(tenant)).flatten() else {
            self.libraries.hurry(&flight);
            return Ok((native.await?, None));
        };
        let began = Instant::now();
        // What the interpreter had of a worker's time is its caller's also where native code overtakes it.
        let unfinished = Unfinished::begin(account, job.cycles_max);
        let run = self.run_one(slot, run_time, deadline, job.clone(), script.elf.clone(), None);
        let mut run = pin!(run.instrument(tracing::debug_span!("meanwhile")));
        let mut ended = None;
        let found = tokio::select! {
            biased;
            found = &mut native => found,
            answered = &mut run => match answered {
                Ok(answer) if Answered::is_one(&answer) => {
                    self.metrics.note_fallback(Fallback::Compiling);
                    unfinished.over();
                    return Ok(((None, Some(Fallback::Compiling)), Some(Answered { answer, began })));
                }
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
            unfinished.over();
            return Ok((found?, Some(Answered { answer, began })));
        }
        Ok((found?, None))
    }

    /// Waits for the turn of `tenant`, unless there is an answer already. Gives how long that was.
    pub(crate) async fn turn<R>(
        &self,
        tenant: &Tenant,
        answered: Option<Answered<R>>,
    ) -> Result<(Turn<R>, Duration), ExecuteError> {
        match answered {
            Some(Answered { answer, began }) => Ok((Turn::Answered(answer, began), Duration::ZERO)),
            None => self.slot(tenant).await.map(|(slot, queue)| (Turn::Worker(slot), queue)),
        }
    }
}
