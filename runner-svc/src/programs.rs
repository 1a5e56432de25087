//! The programs of a transaction: which there are, and their native code as far as it can be had in time.

use std::{sync::Arc, time::Instant};

use antares_abi::{CompileOptions, Sha256Digest};
use antares_pool::{
    Sealed,
    job::{LibraryOf, Tier},
};
use antares_serve::{Account, chain};
use antares_transaction::limits::PROGRAMS_MAX;
use bytes::Bytes;
use tokio::{task::JoinSet, time::timeout_at};
use tracing::Instrument;

use crate::{
    ended::ExecuteError,
    hot::Remembered,
    native::{Native, Origin},
    runner::Shared,
    source::{Fallback, SourceError},
};

/// Where a program is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A whole cell, by ckb's hash of its data.
    Cell([u8; 32]),
    /// Somewhere in the transaction, perhaps: it was met beside programs of this one.
    Beside(Arc<Sealed>),
}

/// A program that may be worth compiling.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) place: Place,
    pub(crate) digest: Sha256Digest,
    pub(crate) elf: Bytes,
    pub(crate) options: CompileOptions,
}

impl From<Remembered> for Candidate {
    fn from(Remembered { elf, bytes, options, .. }: Remembered) -> Self {
        Self { digest: elf.digest(), place: Place::Beside(elf), elf: bytes, options }
    }
}

/// A program with its native code, or why there is none.
#[derive(Clone, Debug)]
pub(crate) struct FoundProgram {
    place: Place,
    digest: Sha256Digest,
    vm_version: u32,
    pub(crate) native: Option<Native>,
    fallback: Option<Fallback>,
}

/// How the native code of a cell was had, for the answer.
#[derive(Clone, Debug)]
pub(crate) struct ProgramUse {
    pub(crate) data_hash: [u8; 32],
    pub(crate) vm_version: u32,
    pub(crate) native: Option<Origin>,
    pub(crate) fallback: Option<Fallback>,
}

impl FoundProgram {
    /// What it is, and why it has no native code, if it has none.
    pub(crate) fn fallback(&self) -> (Sha256Digest, Option<Fallback>) {
        (self.digest, self.fallback)
    }

    /// How its native code was had, if it is a cell.
    pub(crate) fn to_use(&self) -> Option<ProgramUse> {
        let Place::Cell(data_hash) = self.place else { return None };
        let native = self.native.as_ref().map(Native::origin);
        Some(ProgramUse { data_hash, vm_version: self.vm_version, native, fallback: self.fallback })
    }
}

/// The libraries of `programs`, and the ELFs that belong to them, as a worker takes them: cells first, then as many of the others
/// as there is room for.
pub(crate) fn files(programs: Vec<FoundProgram>) -> (Vec<(LibraryOf, Native)>, Vec<Arc<Sealed>>) {
    let (mut libraries, mut beside) = (Vec::new(), Vec::new());
    for program in programs {
        let Some(native) = program.native else { continue };
        match program.place {
            Place::Cell(data_hash) if libraries.len() < PROGRAMS_MAX => {
                libraries.push((LibraryOf::Cell { data_hash }, native));
            }
            Place::Beside(elf) if libraries.len() + beside.len() + 2 <= PROGRAMS_MAX => {
                libraries.push((LibraryOf::Beside, native));
                beside.push(elf);
            }
            _ => {}
        }
    }
    (libraries, beside)
}

impl Shared {
    /// Native code of each candidate, or why there is none.
    pub(crate) async fn natives(
        self: Arc<Self>,
        account: &Account,
        candidates: Vec<Candidate>,
        tier: Tier,
        deadline: Instant,
    ) -> Result<Vec<FoundProgram>, ExecuteError> {
        // Half of what is left is for the run: an interpreter's answer is worth more than compiles without a run.
        let left = deadline.saturating_duration_since(Instant::now());
        let until = if tier == Tier::Native { deadline } else { Instant::now() + left / 2 };
        let late = |candidate: &Candidate| FoundProgram {
            place: candidate.place.clone(),
            digest: candidate.digest,
            vm_version: candidate.options.vm_version,
            native: None,
            fallback: Some(Fallback::Deadline),
        };
        let mut programs: Vec<FoundProgram> = candidates.iter().map(late).collect();
        let mut fetches = JoinSet::new();
        for (index, candidate) in candidates.into_iter().enumerate() {
            if candidate.elf.len() as u64 > self.limits.script_bytes_max {
                programs[index].fallback = Some(Fallback::CompileRefused);
                continue;
            }
            let (shared, account) = (self.clone(), account.clone());
            let fetch = async move {
                let Candidate { digest, elf, options, .. } = candidate;
                (index, shared.library(&account, digest, Some(&elf), options).await)
            };
            fetches.spawn(fetch.in_current_span());
        }
        while let Ok(Some(fetched)) = timeout_at(until.into(), fetches.join_next()).await {
            let (index, fetched) = fetched.map_err(|_| ExecuteError::Internal)?;
            let program = &mut programs[index];
            // Nobody asked for what was only remembered.
            let tier = if matches!(program.place, Place::Cell(_)) { tier } else { Tier::Auto };
            program.fallback = None;
            match fetched {
                Ok(found) => program.native = Some(found),
                Err(error) => program.fallback = Some(fallback(error, tier)?),
            }
        }
        for program in &mut programs {
            if self.leaves_early(account, tier, program.native.as_ref()) {
                (program.native, program.fallback) = (None, Some(Fallback::LeavesEarly));
            }
        }
        programs
            .iter()
            .filter_map(|program| program.fallback)
            .for_each(|why| self.metrics.note_fallback(why));
        Ok(programs)
    }
}

/// Why the interpreter runs a program after this error. What the compiler refuses is left to it in every tier: it names the
/// error, if the program is run at all.
fn fallback(error: SourceError, tier: Tier) -> Result<Fallback, SourceError> {
    match error.fallback() {
        Some(why) if tier != Tier::Native || why == Fallback::CompileRefused => {
            tracing::info!(fallback = why.name(), error = chain(&error), "no native code");
            Ok(why)
        }
        _ => Err(error),
    }
}
