//! Native code on this machine: what is kept from earlier, else the baseline's at once, and full code for the next time.

use std::{cell::OnceCell, thread};

use antares_abi::{CodeTier, CompileOptions, Hints, Seen, Sha256Digest};
use antares_pool::{
    Pool, Sealed,
    job::{HotProgram, Stage},
};

use crate::{
    args::CodeArgs,
    behind::{self, Wanted},
    failure::Failure,
    kept::Kept,
    local::{compile_in, start},
};

/// Native code, ready to be loaded.
pub(crate) struct Native {
    pub(crate) library: Sealed,
    pub(crate) tier: CodeTier,
    /// What was known of the script when it was made.
    pub(crate) hints: Hints,
    /// Wall time of its compile, milliseconds; 0 if it was kept.
    pub(crate) made_ms: u64,
}

/// Where native code comes from.
pub(crate) struct Code {
    is_full: bool,
    kept: Option<Kept>,
    compilers: OnceCell<Pool>,
}

impl Code {
    pub(crate) fn new(args: CodeArgs) -> Self {
        Self { is_full: args.full, kept: Kept::of_user(args.no_cache), compilers: OnceCell::new() }
    }

    /// The best code that there is at once; the full tier's, if that is asked for.
    pub(crate) fn find(&self, elf: &Sealed, options: CompileOptions) -> Result<Native, Failure> {
        let hints = self.kept.as_ref().map(|kept| kept.hints(elf.digest(), options)).unwrap_or_default();
        match self.find_hinted(elf, options, &hints) {
            // Without hints it may be within the limits.
            Err(Failure::Refused { .. }) if !hints.is_empty() => {
                self.find_hinted(elf, options, &Hints::default())
            }
            found => found,
        }
    }

    fn find_hinted(&self, elf: &Sealed, options: CompileOptions, hints: &Hints) -> Result<Native, Failure> {
        if let Some(full) = self.kept(elf, options, hints, CodeTier::Full) {
            return Ok(full);
        }
        if self.is_full {
            return self.make(elf, options, hints, CodeTier::Full);
        }
        if let Some(baseline) = self.kept(elf, options, hints, CodeTier::Baseline) {
            return Ok(baseline);
        }
        match self.make(elf, options, hints, CodeTier::Baseline) {
            // The other generator may manage what this one does not.
            Err(Failure::Service(_)) => self.make(elf, options, hints, CodeTier::Full),
            made => made,
        }
    }

    /// The hints for the next compile, after a run of `native` that has `seen` something that it does not know.
    pub(crate) fn learn(
        &self,
        elf: Sha256Digest,
        options: CompileOptions,
        native: &Native,
        seen: Option<&Seen>,
    ) -> Hints {
        let (Some(kept), Some(seen)) = (&self.kept, seen) else { return native.hints.clone() };
        kept.put_hints(elf, options, &native.hints.learn(seen));
        kept.hints(elf, options)
    }

    /// The programs that were met beside this one, and were hot.
    pub(crate) fn beside(&self, elf: Sha256Digest, options: CompileOptions) -> Vec<Vec<u8>> {
        self.kept.as_ref().map(|kept| kept.beside(elf, options)).unwrap_or_default()
    }

    /// Keeps a program that was met beside others, and where it was seen to go. Gives its hints.
    pub(crate) fn meet(
        &self,
        program: &HotProgram,
        others: &[Sha256Digest],
        options: CompileOptions,
    ) -> Hints {
        let Some(kept) = &self.kept else { return Hints::default() };
        let digest = Sha256Digest::of(&program.elf);
        others.iter().for_each(|other| kept.put_beside(*other, options, &program.elf));
        kept.put_hints(digest, options, &kept.hints(digest, options).learn(&program.seen));
        kept.hints(digest, options)
    }

    /// Has full code made for the next time, where there is none.
    pub(crate) fn improve(&self, wanted: &[Wanted<'_>]) {
        if let Some(kept) = &self.kept {
            behind::start(kept, wanted);
        }
    }

    fn kept(&self, elf: &Sealed, options: CompileOptions, hints: &Hints, tier: CodeTier) -> Option<Native> {
        let key = Sha256Digest::for_artifact(elf.digest(), options, tier).with_hints(hints.digest());
        let library = self.kept.as_ref()?.get(key)?;
        Some(Native { library, tier, hints: hints.clone(), made_ms: 0 })
    }

    fn make(
        &self,
        elf: &Sealed,
        options: CompileOptions,
        hints: &Hints,
        tier: CodeTier,
    ) -> Result<Native, Failure> {
        let stage = match tier {
            CodeTier::Baseline => Stage::Baseline,
            CodeTier::Full => Stage::Library,
        };
        let compiled = compile_in(self.compilers()?, elf, (options, hints), stage)?;
        let library = compiled.output;
        if let Some(kept) = &self.kept {
            // Without it the next run compiles again.
            let key = Sha256Digest::for_artifact(elf.digest(), options, tier).with_hints(hints.digest());
            let _ = library.read().and_then(|bytes| kept.put(key, &bytes));
        }
        // Less than a millisecond was a compile, too.
        Ok(Native { library, tier, hints: hints.clone(), made_ms: compiled.summary.compile_ms.max(1) })
    }

    fn compilers(&self) -> Result<&Pool, Failure> {
        if self.compilers.get().is_none() {
            let _ = self.compilers.set(start("antares-compile-worker")?);
        }
        self.compilers.get().ok_or_else(|| crate::local::ours("there is no compiler"))
    }
}

/// Does `other` in a thread of its own while `work` goes on here.
pub(crate) fn beside<T: Send, U>(other: impl FnOnce() -> T + Send, work: impl FnOnce() -> U) -> (T, U) {
    thread::scope(|scope| {
        let other = scope.spawn(other);
        let done = work();
        match other.join() {
            Ok(found) => (found, done),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
