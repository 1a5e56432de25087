//! Programs that no cell has as a whole (slices that exec or spawn run, code from witnesses, code that
//! scripts load at run time), found hot by a run: compiled off the path of any call, and remembered with the
//! transactions that they were met in.
//!
//! Which bytes are hot is what a worker says. That is no matter of trust: a library is used for the bytes
//! that it was compiled from, whoever thought of them.

use std::sync::Arc;

use antares_abi::{LoadedCode, Seen, Sha256Digest};
use antares_pool::job::{HOT_BYTES_MAX, HOT_PROGRAMS_MAX, HotProgram};
use antares_serve::Account;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    artifacts::{Artifacts, seal::seal},
    limits::HOT_QUEUE_MAX,
    metrics::{HotResult, RunnerMetrics},
    source::{Fallback, Wanted},
    verify::hot_list::{HotList, Interpreted, Met, Remembered, Why},
};

/// Has hot programs compiled.
pub(crate) struct HotPrograms {
    list: HotList,
    queue: Arc<Semaphore>,
    /// One is compiled at a time.
    turn: Semaphore,
    artifacts: Arc<Artifacts>,
    metrics: Arc<RunnerMetrics>,
}

impl HotPrograms {
    pub(crate) fn new(artifacts: &Arc<Artifacts>, metrics: &Arc<RunnerMetrics>) -> Self {
        Self {
            list: HotList::default(),
            queue: Arc::new(Semaphore::new(HOT_QUEUE_MAX)),
            turn: Semaphore::new(1),
            artifacts: artifacts.clone(),
            metrics: metrics.clone(),
        }
    }

    /// As [`HotList::find`].
    pub(crate) fn find(&self, cells: &[[u8; 32]]) -> Vec<Remembered> {
        self.list.find(cells)
    }

    /// Has `programs` compiled some time, if there is room in the queue. Nobody waits for it. Gives what to
    /// tell of them.
    pub(crate) fn take(
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
            let why = met.why(digest).unwrap_or_else(|| self.compile_later(account, digest, elf, seen, met));
            told.push(Interpreted { digest, loaded_at, bytes: size, cycles, why });
        }
        told
    }

    /// Has one compiled some time, if there is room. Gives why it had no native code.
    fn compile_later(
        self: &Arc<Self>,
        account: &Account,
        digest: Sha256Digest,
        elf: Vec<u8>,
        seen: Seen,
        met: &Met,
    ) -> Why {
        let Ok(place) = self.queue.clone().try_acquire_owned() else {
            self.metrics.note_hot(HotResult::Dropped);
            return Why::QueueFull;
        };
        let why = self.list.why(digest, &met.options);
        tokio::spawn(self.clone().compile_one(place, account.clone(), elf.into(), seen, met.clone()));
        why
    }

    async fn compile_one(
        self: Arc<Self>,
        _place: OwnedSemaphorePermit,
        account: Account,
        bytes: Bytes,
        seen: Seen,
        met: Met,
    ) {
        // The semaphore is never closed.
        let Ok(_turn) = self.turn.acquire().await else { return };
        let Ok(elf) = seal("antares-program", bytes.clone()).await else { return };
        let (digest, elf) = (elf.digest(), Arc::new(elf));
        for options in met.options {
            if self.list.meet(digest, options, &met.cells) {
                continue;
            }
            match self
                .artifacts
                .library(&account, Wanted::best(digest, options, Some(bytes.clone())), None)
                .await
            {
                Ok(native) => {
                    // What is loaded says nowhere where it is entered.
                    if !seen.hints.is_empty() {
                        self.artifacts.learn_seen(&account, &native, seen.clone());
                    }
                    let (elf, bytes, cells) = (elf.clone(), bytes.clone(), met.cells.clone());
                    self.list.remember(Remembered { elf, bytes, options, cells });
                    self.list.note(digest, None);
                    self.metrics.note_hot(HotResult::Compiled);
                }
                Err(error) => {
                    tracing::debug!(script = %digest, %error, "a hot program has no native code");
                    self.list.note(digest, Some(error.fallback().unwrap_or(Fallback::CompileFailed)));
                    self.metrics.note_hot(HotResult::Failed);
                }
            }
        }
    }
}
