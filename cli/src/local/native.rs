//! Native code on this machine: cached code, else baseline code at once, with full code for the next run.

use std::{sync::OnceLock, thread};

use antares_abi::{ArtifactKey, CodeTier, CompileOptions, Hints, Seen, Sha256Digest};
use antares_pool::{
    Cancel, LONG_COMPILE_BYTES, Pool, Sealed, executable_bytes,
    job::{HotProgram, Stage},
};

use crate::{
    args::code::CodeArgs,
    failure::Failure,
    local::code_cache::CodeFolder,
    local::workers::{compile_in, ours, start},
};

/// Native code, ready to load.
pub(crate) struct Native {
    pub(crate) key: ArtifactKey,
    pub(crate) library: Sealed,
    pub(crate) tier: CodeTier,
    /// Hints about the script when it was compiled.
    pub(crate) hints: Hints,
    /// Wall time of its compile, milliseconds; 0 if it was cached.
    pub(crate) made_ms: u64,
}

/// Suffix of a file that marks a script that ran while its code was compiled.
const BACKGROUND: &str = "meanwhile";

/// Inputs of a compile.
#[derive(Clone, Copy)]
struct Source<'a> {
    elf: &'a Sealed,
    options: CompileOptions,
    hints: &'a Hints,
}

impl Source<'_> {
    fn key(self, tier: CodeTier) -> ArtifactKey {
        Sha256Digest::for_artifact(self.elf.digest(), self.options, tier).with_hints(self.hints.digest())
    }
}

/// Finds, compiles and caches native code.
pub struct Code {
    is_full: bool,
    pub(crate) kept: CodeFolder,
    compilers: OnceLock<Pool>,
    cancel: Cancel,
}

impl Code {
    pub fn new(args: CodeArgs) -> Self {
        Self {
            is_full: args.full,
            kept: CodeFolder::of_user(args.no_cache),
            compilers: OnceLock::new(),
            cancel: Cancel::new(),
        }
    }

    /// Stops all compiles.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Reports that a script runs without native code, unless its compile was stopped.
    pub(crate) fn report(&self, failure: &Failure) {
        if !self.cancel.is_cancelled() {
            let why = crate::output::printable(&failure.to_string());
            eprintln!("antares: running in the interpreter alone: {why}");
        }
    }

    /// The best code that is available at once; the full tier's, if requested and possible.
    pub(crate) fn find(&self, elf: &Sealed, options: CompileOptions) -> Result<Native, Failure> {
        let hints = self.kept.hints(elf.digest(), options);
        let source = Source { elf, options, hints: &hints };
        if !self.is_full {
            return hinted_or_not(source, |source| self.find_soon(source));
        }
        match hinted_or_not(source, |source| self.find_full(source)) {
            Err(failure) if !self.cancel.is_cancelled() => {
                let baseline = hinted_or_not(source, |source| self.find_baseline(source));
                let Ok(baseline) = baseline else { return Err(failure) };
                report_no_full(&failure);
                Ok(baseline)
            }
            full => full,
        }
    }

    /// Whether a script has no native code yet, takes long to compile, and has never run without it for that
    /// reason.
    pub(crate) fn is_first(&self, elf: &Sealed, options: CompileOptions) -> bool {
        let key = Sha256Digest::for_artifact(elf.digest(), options, CodeTier::Full);
        let is_long = || elf.read().is_ok_and(|elf| executable_bytes(&elf) >= LONG_COMPILE_BYTES);
        let waits = self.is_full || self.kept.path().is_none() || self.has(elf.digest(), options);
        !waits && self.kept.get_as(BACKGROUND, key).is_none() && is_long()
    }

    /// Whether there is native code of a script from an earlier run.
    pub fn has(&self, elf: Sha256Digest, options: CompileOptions) -> bool {
        let hints = self.kept.hints(elf, options).digest();
        let key = |tier| Sha256Digest::for_artifact(elf, options, tier).with_hints(hints);
        CodeTier::ALL.into_iter().any(|tier| self.kept.has(key(tier)))
    }

    /// Records that a first run had no native code.
    pub(crate) fn record_first(&self, elf: Sha256Digest, options: CompileOptions) {
        self.kept.put_as(BACKGROUND, Sha256Digest::for_artifact(elf, options, CodeTier::Full), &[]);
    }

    /// The best code that is available at once.
    fn find_soon(&self, source: Source<'_>) -> Result<Native, Failure> {
        if let Some(full) = self.cached(source, CodeTier::Full) {
            return Ok(full);
        }
        match self.find_baseline(source) {
            // The other generator may succeed.
            Err(Failure::Service(_)) => self.make(source, CodeTier::Full),
            found => found,
        }
    }

    fn find_baseline(&self, source: Source<'_>) -> Result<Native, Failure> {
        let cached = self.cached(source, CodeTier::Baseline);
        cached.map_or_else(|| self.make(source, CodeTier::Baseline), Ok)
    }

    /// The full tier's code. Does not retry a compile that failed recently.
    fn find_full(&self, source: Source<'_>) -> Result<Native, Failure> {
        if let Some(full) = self.cached(source, CodeTier::Full) {
            return Ok(full);
        }
        let key = source.key(CodeTier::Full);
        if self.kept.is_marked(key) {
            return Err(ours("it failed less than a day ago"));
        }
        let made = self.make(source, CodeTier::Full);
        if made.is_err() && !self.cancel.is_cancelled() {
            self.kept.mark(key);
        }
        made
    }

    /// The hints for the next compile, if a run of `native` has `seen` something new.
    pub(crate) fn learn(
        &self,
        elf: Sha256Digest,
        options: CompileOptions,
        native: &Native,
        seen: Option<&Seen>,
    ) -> Hints {
        let Some(seen) = seen else { return native.hints.clone() };
        self.kept.put_hints(elf, options, &native.hints.learn(seen));
        self.kept.hints(elf, options)
    }

    /// Stores a dynamic program and its observations. Returns its hints.
    pub(crate) fn meet(
        &self,
        program: &HotProgram,
        others: &[Sha256Digest],
        options: CompileOptions,
    ) -> Hints {
        let (kept, digest) = (&self.kept, Sha256Digest::of(&program.elf));
        others.iter().for_each(|other| kept.put_dynamic_program(*other, options, &program.elf));
        kept.put_hints(digest, options, &kept.hints(digest, options).learn(&program.seen));
        kept.hints(digest, options)
    }

    fn cached(&self, source: Source<'_>, tier: CodeTier) -> Option<Native> {
        let key = source.key(tier);
        let library = self.kept.get(key)?;
        Some(Native { key, library, tier, hints: source.hints.clone(), made_ms: 0 })
    }

    fn make(&self, source: Source<'_>, tier: CodeTier) -> Result<Native, Failure> {
        let stage = match tier {
            CodeTier::Baseline => Stage::Baseline,
            CodeTier::Full => Stage::Library,
        };
        let Source { elf, options, hints } = source;
        let compiled = compile_in(self.compilers()?, elf, (options, hints), stage, &self.cancel)?;
        let (library, key) = (compiled.output, source.key(tier));
        // Without the entry, the next run compiles again.
        let _ = library.read().and_then(|bytes| self.kept.put(key, &bytes));
        // A compile of less than a millisecond counts too: 0 means cached.
        Ok(Native { key, library, tier, hints: hints.clone(), made_ms: compiled.summary.compile_ms.max(1) })
    }

    fn compilers(&self) -> Result<&Pool, Failure> {
        if self.compilers.get().is_none() {
            let _ = self.compilers.set(start("antares-compile-worker")?);
        }
        self.compilers.get().ok_or_else(|| ours("there is no compiler"))
    }
}

/// Calls `find` with hints, or without them if they exceed the limits.
fn hinted_or_not(
    source: Source<'_>,
    find: impl Fn(Source<'_>) -> Result<Native, Failure>,
) -> Result<Native, Failure> {
    match find(source) {
        Err(Failure::Refused { .. }) if !source.hints.is_empty() => {
            find(Source { hints: &Hints::default(), ..source })
        }
        found => found,
    }
}

fn report_no_full(failure: &Failure) {
    let why = crate::output::printable(&failure.to_string());
    eprintln!("antares: running the baseline's code: no full compile: {why}");
}

/// Runs `other` in a separate thread while `work` runs here.
pub(crate) fn join<T: Send, U>(other: impl FnOnce() -> T + Send, work: impl FnOnce() -> U) -> (T, U) {
    thread::scope(|scope| {
        let other = scope.spawn(other);
        let done = work();
        match other.join() {
            Ok(found) => (found, done),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
