//! A transaction's programs, and their native code as far as it is available in time.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Instant};

use crate::race::PendingCode;
use antares_abi::{CodeTier, CompileOptions, Sha256Digest};
use antares_pool::{
    Sealed, executable_bytes,
    job::{LibraryOf, Tier},
};
use antares_serve::{Account, chain};
use antares_transaction::limits::PROGRAMS_MAX;
use bytes::Bytes;
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
    time::timeout_at,
};
use tracing::Instrument;

use crate::{
    artifacts::{
        Artifacts,
        library::head_start,
        native::{Native, Origin},
    },
    ended::ExecuteError,
    source::{Fallback, SourceError, Wanted},
    verify::hot_programs::Remembered,
};

/// Location of a program.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// A whole cell, by ckb's hash of its data.
    Cell([u8; 32]),
    /// Possibly in the transaction: earlier found with programs of this one.
    Beside(Arc<Sealed>),
}

/// A program that may be worth compiling.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) place: Location,
    pub(crate) digest: Sha256Digest,
    pub(crate) elf: Bytes,
    /// Its bytes came with the call: the source need not have them. Bytes from memory alone are no upload, or
    /// a removed script would come back.
    pub(crate) is_sent: bool,
    pub(crate) options: CompileOptions,
}

impl From<Remembered> for Candidate {
    fn from(Remembered { elf, bytes, options, .. }: Remembered) -> Self {
        Self { digest: elf.digest(), place: Location::Beside(elf), elf: bytes, is_sent: false, options }
    }
}

/// A program with its native code, or the reason for its absence.
#[derive(Clone, Debug)]
pub(crate) struct FoundProgram {
    place: Location,
    digest: Sha256Digest,
    options: CompileOptions,
    pub(crate) native: Option<Native>,
    fallback: Option<Fallback>,
}

/// Origin of a cell's native code, for the response.
#[derive(Clone, Debug)]
pub(crate) struct ProgramUse {
    pub(crate) data_hash: [u8; 32],
    pub(crate) vm_version: u32,
    pub(crate) native: Option<Origin>,
    pub(crate) fallback: Option<Fallback>,
}

impl FoundProgram {
    /// A program whose native code is late until it arrives.
    fn late(candidate: &Candidate) -> Self {
        Self {
            place: candidate.place.clone(),
            digest: candidate.digest,
            options: candidate.options,
            native: None,
            fallback: Some(Fallback::Deadline),
        }
    }

    /// Its digest, and why it has no native code, if it has none.
    pub(crate) fn fallback(&self) -> (Sha256Digest, Option<Fallback>) {
        (self.digest, self.fallback)
    }

    /// Origin of its native code, if it is a cell.
    pub(crate) fn to_use(&self) -> Option<ProgramUse> {
        let Location::Cell(data_hash) = self.place else { return None };
        let native = self.native.as_ref().map(Native::origin);
        let vm_version = self.options.vm_version;
        Some(ProgramUse { data_hash, vm_version, native, fallback: self.fallback })
    }
}

/// Extra files of a verification.
pub(crate) const FILES_MAX: usize = PROGRAMS_MAX;

/// The libraries of `programs` and their ELFs as a worker takes them, at most `most` files: cells first, then
/// others up to the limit.
pub(crate) fn files(
    programs: Vec<FoundProgram>,
    most: usize,
) -> (Vec<(LibraryOf, Native)>, Vec<Arc<Sealed>>) {
    let (mut libraries, mut beside) = (Vec::new(), Vec::new());
    for program in programs {
        let Some(native) = program.native else { continue };
        match program.place {
            Location::Cell(data_hash) if libraries.len() < most => {
                libraries.push((LibraryOf::Cell { data_hash }, native));
            }
            Location::Beside(elf) if libraries.len() + beside.len() + 2 <= most => {
                libraries.push((LibraryOf::Beside, native));
                beside.push(elf);
            }
            _ => {}
        }
    }
    (libraries, beside)
}

/// The index of a program, and its native code or an error.
type Fetch = (usize, Result<Native, SourceError>);

/// Programs with pending native code.
pub(crate) struct Natives {
    artifacts: Arc<Artifacts>,
    account: Account,
    tier: Tier,
    until: Instant,
    programs: Vec<FoundProgram>,
    fetches: JoinSet<Fetch>,
    /// Pending programs, and whether their long compile has started.
    missing: BTreeMap<usize, bool>,
    begin: mpsc::UnboundedReceiver<usize>,
}

/// Fetches a program's native code; signals `began` if a long compile starts.
async fn fetch_program(
    artifacts: &Artifacts,
    account: &Account,
    Candidate { digest, elf, is_sent, options, .. }: Candidate,
    tier: Tier,
    began: impl FnOnce(),
) -> Result<Native, SourceError> {
    let code = elf.clone();
    let (start, mut long) = head_start(move || executable_bytes(&code));
    let start = (tier != Tier::Native).then_some(start);
    let wanted = Wanted::best(digest, options, is_sent.then_some(elf));
    let mut native = pin!(artifacts.library(account, wanted, start));
    tokio::select! {
        biased;
        native = &mut native => native,
        true = long.begins() => {
            began();
            native.await
        }
    }
}

impl Natives {
    /// Requests native code for each candidate.
    pub(crate) fn request(
        artifacts: &Arc<Artifacts>,
        account: &Account,
        candidates: Vec<Candidate>,
        tier: Tier,
        deadline: Instant,
    ) -> Self {
        // Half of the remaining time is for the run: an interpreted answer beats compiles without a run.
        let left = deadline.saturating_duration_since(Instant::now());
        let until = if tier == Tier::Native { deadline } else { Instant::now() + left / 2 };
        let (began, begin) = mpsc::unbounded_channel();
        let mut natives = Self {
            artifacts: artifacts.clone(),
            account: account.clone(),
            tier,
            until,
            programs: candidates.iter().map(FoundProgram::late).collect(),
            fetches: JoinSet::new(),
            missing: BTreeMap::new(),
            begin,
        };
        for (index, candidate) in candidates.into_iter().enumerate() {
            if candidate.elf.len() as u64 > artifacts.script_bytes_max {
                natives.programs[index].fallback = Some(Fallback::CompileRefused);
                continue;
            }
            let Candidate { digest, options, .. } = candidate;
            if let Ok(Some(native)) = artifacts.at_hand(account, digest, options, CodeTier::Full) {
                natives.receive(index, native);
                continue;
            }
            let (artifacts, account, began) = (artifacts.clone(), account.clone(), began.clone());
            let fetch = async move {
                let fetched = fetch_program(&artifacts, &account, candidate, tier, || {
                    // The receiver may be gone.
                    let _ = began.send(index);
                });
                (index, fetched.await)
            };
            natives.fetches.spawn(fetch.in_current_span());
            natives.missing.insert(index, false);
        }
        natives
    }

    /// The programs with the native code so far.
    pub(crate) fn found(&self) -> Vec<FoundProgram> {
        let mut programs = self.programs.clone();
        // After this time native code comes too late.
        let is_early = Instant::now() < self.until;
        for index in self.missing.keys().filter(|_| is_early) {
            programs[*index].fallback = Some(Fallback::Compiling);
        }
        programs
    }

    fn receive(&mut self, index: usize, found: Native) {
        let program = &mut self.programs[index];
        program.fallback = None;
        if self.artifacts.bails_out_early(&self.account, self.tier, &found) {
            program.fallback = Some(Fallback::LeavesEarly);
        } else {
            program.native = Some(found);
        }
    }

    fn take(&mut self, fetched: Result<Fetch, JoinError>) -> Result<(), ExecuteError> {
        let (index, fetched) = fetched.map_err(|_| ExecuteError::Internal)?;
        self.missing.remove(&index);
        let program = &mut self.programs[index];
        // The caller did not request remembered programs.
        let tier = if matches!(program.place, Location::Cell(_)) { self.tier } else { Tier::Auto };
        program.fallback = None;
        match fetched {
            Ok(found) => self.receive(index, found),
            // It is recompiled if a transaction still has it.
            Err(SourceError::ScriptNotFound(_)) if matches!(program.place, Location::Beside(_)) => {
                program.fallback = Some(Fallback::CompileFailed);
            }
            Err(error) => program.fallback = Some(fallback(error, tier)?),
        }
        Ok(())
    }
}

impl PendingCode for Natives {
    type Error = ExecuteError;

    async fn until_long(&mut self) -> Result<bool, ExecuteError> {
        while self.missing.values().any(|is_long| !is_long) {
            tokio::select! {
                biased;
                Some(index) = self.begin.recv() => {
                    // The code may have arrived before the signal.
                    self.missing.entry(index).and_modify(|is_long| *is_long = true);
                }
                fetched = timeout_at(self.until.into(), self.fetches.join_next()) => match fetched {
                    Ok(Some(fetched)) => self.take(fetched)?,
                    Ok(None) | Err(_) => return Ok(false),
                },
            }
        }
        Ok(!self.missing.is_empty())
    }

    async fn rest(&mut self) -> Result<(), ExecuteError> {
        while let Ok(Some(fetched)) = timeout_at(self.until.into(), self.fetches.join_next()).await {
            self.take(fetched)?;
        }
        Ok(())
    }

    fn wake(&self) {
        for index in self.missing.keys() {
            let FoundProgram { digest, options, .. } = self.programs[*index];
            self.artifacts.wake(&self.account, digest, options);
        }
    }

    fn there(&self) -> usize {
        self.programs.iter().filter(|program| program.native.is_some()).count()
    }

    fn keep_later(&mut self) {
        self.fetches.detach_all();
    }
}

/// Why the interpreter runs a program after this error. It gets programs that the compiler refuses in every
/// tier: it names the error if the program runs at all.
fn fallback(error: SourceError, tier: Tier) -> Result<Fallback, SourceError> {
    match error.fallback() {
        Some(why) if tier != Tier::Native || why == Fallback::CompileRefused => {
            tracing::info!(fallback = why.into_str(), error = chain(&error), "no native code");
            Ok(why)
        }
        _ => Err(error),
    }
}
