//! What runs teach: where scripts were seen to go, which native code they leave early, which programs are
//! hot; and their samples.

use std::sync::Arc;

use antares_abi::{LoadedCode, Seen, Sha256Digest};
use antares_pool::NativeEnd;
use antares_pool::job::{HOT_BYTES_MAX, HOT_PROGRAMS_MAX, HotProgram, RunReport, Samples, Tier};
use antares_serve::{Account, chain};
use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    early::Runs,
    ended::Ended,
    hot::{Interpreted, Met, Remembered, Why},
    learn::Subject,
    metrics::HotResult,
    native::{Native, Origin},
    prepare::NativeOrNot,
    profile_entry::{ProfileKey, RunCycles},
    runner::Shared,
    seal::seal,
    source::Fallback,
};

impl Shared {
    /// Tells the source what a run of `native` has seen that it did not know. Nobody waits for that.
    pub(crate) fn learn_from(
        self: &Arc<Self>,
        account: &Account,
        native: Option<&Native>,
        ended: &Ended<RunReport>,
    ) {
        if let (Some(native), Ended::Reported(RunReport { seen: Some(seen), .. })) = (native, ended) {
            self.learn_seen(account, native, seen.clone());
        }
    }

    pub(crate) fn learn_seen(self: &Arc<Self>, account: &Account, native: &Native, seen: Seen) {
        let (script, options) = (native.script, native.options);
        let subject = Subject::of(account, script, options);
        if !self.learnt.begin(subject) {
            return;
        }
        let (shared, source) = (self.clone(), self.source.of(account));
        tokio::spawn(async move {
            let told = source.learn(script, options, seen).await;
            if let Err(error) = &told {
                tracing::info!(%script, error = chain(error), "the compiler does not learn where a script goes");
            }
            shared.learnt.end(subject, told.ok());
        });
    }

    /// Adds a run to the profiles.
    pub(crate) fn keep_profile(&self, tenant: &Arc<str>, script: Sha256Digest, ended: &Ended) {
        if let Ended::Reported(report) = ended {
            let cycles = (report.cycles, report.native_cycles);
            self.keep_samples(tenant, Some(script), report.samples.as_ref(), cycles);
        }
    }

    /// Adds cycles to the profiles, with the samples that there are of them; the second number is how many of
    /// them could be sampled.
    pub(crate) fn keep_samples(
        &self,
        tenant: &Arc<str>,
        script: Option<Sha256Digest>,
        samples: Option<&Samples>,
        (cycles, native_cycles): (u64, u64),
    ) {
        if self.limits.sample_cycles.is_none() {
            return;
        }
        let key = ProfileKey { tenant: tenant.clone(), script };
        let wrong = self.profiles.add(&key, RunCycles { samples, cycles, native_cycles });
        self.metrics.note_samples(samples.is_some(), wrong);
        if wrong > 0 {
            tracing::error!(wrong, cycles, "the samples of a run do not add up to its cycles");
        }
    }

    /// Notes what a run says of its native code.
    pub(crate) fn note_left(&self, account: &Account, native: Option<Origin>, report: &RunReport) {
        if let Some(native) = native {
            self.early.note(Runs::of(account, native.key), report.native_end());
        }
    }

    /// The same of the libraries of a transaction, by their number in its job, of each group.
    pub(crate) fn note_ran(&self, account: &Account, libraries: &[Native], ran: Vec<(u32, NativeEnd)>) {
        for (number, end) in ran {
            if let Some(native) = usize::try_from(number).ok().and_then(|number| libraries.get(number)) {
                self.early.note(Runs::of(account, native.key), end);
            }
        }
    }

    /// Whether a run begins without this native code, since it is known to be left before its end.
    pub(crate) fn leaves_early(&self, account: &Account, tier: Tier, native: &Native) -> bool {
        tier == Tier::Auto && self.early.begins_interpreted(Runs::of(account, native.key))
    }

    /// Native code, unless it is known to be left before its end.
    pub(crate) fn unless_left_early(
        &self,
        account: &Account,
        tier: Tier,
        (native, fallback): NativeOrNot,
    ) -> NativeOrNot {
        match native {
            Some(native) if self.leaves_early(account, tier, &native) => {
                self.metrics.note_fallback(Fallback::LeavesEarly);
                (None, Some(Fallback::LeavesEarly))
            }
            native => (native, fallback),
        }
    }

    /// Has `programs` compiled some time, if there is room in the queue. Nobody waits for it. Gives what to
    /// tell of them.
    pub(crate) fn learn(
        self: &Arc<Self>,
        account: &Account,
        programs: Vec<HotProgram>,
        met: &Met,
    ) -> Vec<Interpreted> {
        let mut told = Vec::new();
        for HotProgram { elf, cycles, seen } in programs.into_iter().take(HOT_PROGRAMS_MAX) {
            if elf.len() > HOT_BYTES_MAX {
                continue;
            }
            let digest = Sha256Digest::of(&elf);
            let loaded_at = LoadedCode::read(&elf).map(|code| code.start);
            let size = elf.len() as u64;
            let why = met.why(digest).unwrap_or_else(|| self.learn_later(account, digest, (elf, seen), met));
            told.push(Interpreted { digest, loaded_at, bytes: size, cycles, why });
        }
        told
    }

    /// Has one compiled some time, if there is room. Gives why it had no native code.
    fn learn_later(
        self: &Arc<Self>,
        account: &Account,
        digest: Sha256Digest,
        (elf, seen): (Vec<u8>, Seen),
        met: &Met,
    ) -> Why {
        let Ok(place) = self.hot.queue.clone().try_acquire_owned() else {
            self.metrics.note_hot(HotResult::Dropped);
            return Why::QueueFull;
        };
        let why = self.hot.why(digest, &met.options);
        tokio::spawn(self.clone().learn_one(place, account.clone(), (Bytes::from(elf), seen), met.clone()));
        why
    }

    async fn learn_one(
        self: Arc<Self>,
        _place: OwnedSemaphorePermit,
        account: Account,
        (bytes, seen): (Bytes, Seen),
        met: Met,
    ) {
        // The semaphore is never closed.
        let Ok(_turn) = self.hot.turn.acquire().await else { return };
        let Ok(elf) = seal("antares-program", bytes.clone()).await else { return };
        let (digest, elf) = (elf.digest(), Arc::new(elf));
        for options in met.options {
            if self.hot.meet(digest, options, &met.cells) {
                continue;
            }
            match self.library(&account, digest, Some(&bytes), options).await {
                Ok(native) => {
                    // What is loaded says nowhere where it is entered.
                    if !seen.hints.is_empty() {
                        self.learn_seen(&account, &native, seen.clone());
                    }
                    let (elf, bytes, cells) = (elf.clone(), bytes.clone(), met.cells.clone());
                    self.hot.remember(Remembered { elf, bytes, options, cells });
                    self.hot.note(digest, None);
                    self.metrics.note_hot(HotResult::Compiled);
                }
                Err(error) => {
                    tracing::debug!(script = %digest, %error, "a hot program has no native code");
                    self.hot.note(digest, Some(error.fallback().unwrap_or(Fallback::CompileFailed)));
                    self.metrics.note_hot(HotResult::Failed);
                }
            }
        }
    }
}
