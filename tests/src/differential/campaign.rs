//! Differential campaigns: many random programs from one seed, generated in batches, compiled, compared and
//! counted.
//!
//! The seed of batch number N is derived from the campaign's seed and N, so it depends neither on the number
//! of threads nor on other batches. The seed of a batch alone reproduces its programs.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use antares_abi::{CodeTier, CompileOptions, Hints};
use antares_codegen::Convention;
use antares_vm::{Library, Machine, MachineSession, Tier};
use anyhow::{Context, Result, bail};
use bytes::Bytes;

use super::{
    compare::{Difference, Equal, compare, compare_in},
    tally::Tally,
};
use crate::{
    generate::{
        Kind, Program, Random, Settings,
        batch::{self, Shape},
        draw_options, loading,
        mutant::{Mutant, mutant},
        program,
    },
    native,
    oracle::Case,
};

/// Mutants per batch; each is a separate ELF.
const MUTANTS: usize = 5;
const MUTANT_CYCLES_MAX: u64 = 500_000;
/// For each kind, its share of a hundred batches, and the programs per batch; the remaining batches are
/// mutants. Long programs take longer to compile, so their batches are smaller.
const KINDS: [(Kind, u32, usize); 9] = [
    (Kind::Short, 18, 150),
    (Kind::Counted, 12, 80),
    (Kind::Boundary, 20, 100),
    (Kind::Links, 14, 60),
    // The optimisation needs few functions: one program per batch.
    (Kind::Pointers, 12, 1),
    (Kind::Crowded, 4, 12),
    (Kind::Loading, 8, 60),
    (Kind::Stream, 5, 40),
    (Kind::Structured, 5, 20),
];

/// One in `SMALL_BATCHES` batches has one to three programs.
const SMALL_BATCHES: u32 = 3;

/// Parameters of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The campaign's seed.
    pub seed: u64,
    /// Minimum number of programs: the last batch runs to its end.
    pub programs: u64,
    /// The code generator to compare; `None` for the interpreter tier.
    pub native: Option<CodeTier>,
    /// Runs only these programs instead of a mixture.
    pub only: Option<Choice>,
}

/// Contents of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Generated programs of this kind.
    Generated(Kind),
    /// Mutants of real scripts.
    Mutants,
}

/// The programs of a batch.
#[derive(Clone, Debug)]
pub enum Subject {
    /// Generated programs in one ELF.
    Generated {
        /// All programs.
        programs: Vec<Program>,
        /// The batch's layout.
        shape: Shape,
    },
    /// Mutants.
    Mutants(Vec<Mutant>),
}

/// A batch, derived from its seed.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Its kind.
    pub choice: Choice,
    /// VM version and ISA.
    pub options: CompileOptions,
    /// Calling convention of full-tier functions, if not the compiler's choice.
    pub convention: Option<Convention>,
    /// Seed of the batch's false hints, if it has any.
    pub lies: Option<u64>,
    /// Its programs.
    pub subject: Subject,
    /// Code that the programs may load, if they run on the machine for ckb-script.
    pub code: Option<Bytes>,
}

impl Batch {
    /// Compiles `elf`, an ELF of this batch; the inner error is the reason of a refusal.
    ///
    /// # Errors
    /// The compiler failed.
    pub fn compile(&self, elf: &[u8], tier: CodeTier) -> Result<Result<Library, String>> {
        match (tier, self.convention) {
            (CodeTier::Full, Some(Convention::Arguments)) => native::compile_through_state(elf, self.options),
            _ => native::compile_with(elf, self.options, tier, &self.hints(elf)),
        }
    }

    /// False hints for some batches: random addresses of the ELF as targets of calls or jumps.
    fn hints(&self, elf: &[u8]) -> Hints {
        let Some(mut state) = self.lies else { return Hints::default() };
        let entry = elf.get(24..32).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let count = 1 + draw(40);
        let mut target = |_| (entry + 2 * draw(elf.len() as u64 / 2), draw(2) == 0);
        let hints = Hints::new((0..count).map(&mut target));
        if draw(4) == 0 { hints.with_lying_tables() } else { hints }
    }
}

/// A program that differs.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Seed of the batch.
    pub seed: u64,
    /// Index of the program in the batch.
    pub index: usize,
    pub batch: Batch,
    /// What differs.
    pub difference: Difference,
    /// The code generator that differs.
    pub native: Option<CodeTier>,
}

impl Choice {
    /// All choices.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.into_iter().map(|(kind, ..)| Self::Generated(kind)).chain([Self::Mutants])
    }

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Generated(kind) => format!("{kind:?}").to_lowercase(),
            Self::Mutants => "mutant".to_owned(),
        }
    }

    /// The kind of the batch of `seed`, in a mixture.
    fn draw(seed: u64) -> Self {
        let mut left = Random::new(!seed).below(100);
        for (kind, share, _) in KINDS {
            if left < share {
                return Self::Generated(kind);
            }
            left -= share;
        }
        Self::Mutants
    }

    /// Number of programs in the batch of `seed`. Some batches are small: many programs may mask a bug that
    /// one exposes, and a register that no program changes or reads is rare among many.
    fn count(self, seed: u64) -> usize {
        let mut random = Random::new(seed.rotate_left(32));
        match self {
            Self::Generated(kind) if kind != Kind::Pointers && random.one_in(SMALL_BATCHES) => {
                1 + random.below(3) as usize
            }
            Self::Generated(kind) => {
                KINDS.iter().find(|(other, ..)| *other == kind).map_or(1, |(_, _, count)| *count)
            }
            Self::Mutants => MUTANTS,
        }
    }
}

impl Campaign {
    fn batch_seed(&self, index: u64) -> u64 {
        Random::new(self.seed ^ index.wrapping_mul(0x5851_f42d_4c95_7f2d)).bits()
    }

    /// Seeds of all batches to run.
    fn plan(&self) -> Vec<u64> {
        let mut programs = 0;
        let mut plan = Vec::new();
        while programs < self.programs {
            let seed = self.batch_seed(plan.len() as u64);
            programs += self.choice(seed).count(seed) as u64;
            plan.push(seed);
        }
        plan
    }

    fn choice(&self, seed: u64) -> Choice {
        self.only.unwrap_or_else(|| Choice::draw(seed))
    }

    /// Runs programs on `jobs` threads until one differs or all are done; calls `each` with the tally after
    /// every batch. The tally of a campaign without failures does not depend on `jobs`.
    ///
    /// # Errors
    /// The compiler or the machine failed.
    pub fn run(&self, jobs: usize, each: impl Fn(&Tally) + Sync) -> Result<(Tally, Option<Failure>)> {
        let plan = self.plan();
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let total = Mutex::new(Tally::default());
        let work = || -> Result<Option<Failure>> {
            let mut machine = Machine::new()?;
            while !stop.load(Ordering::Relaxed) {
                let Some(seed) = plan.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                let mut tally = Tally::default();
                let failure = self.batch(&mut machine, *seed, &mut tally);
                let failure = failure.with_context(|| format!("batch with seed {seed:#x}"));
                stop.fetch_or(!matches!(failure, Ok(None)), Ordering::Relaxed);
                let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                total.add(tally);
                each(&total);
                drop(total);
                if let Some(failure) = failure? {
                    return Ok(Some(failure));
                }
            }
            Ok(None)
        };
        let failures = on_threads(jobs, work)?;
        let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((total, failures.into_iter().flatten().next()))
    }

    /// Generates, compiles and compares the batch of `seed`.
    ///
    /// # Errors
    /// The compiler or the machine failed.
    pub fn batch(&self, machine: &mut Machine, seed: u64, tally: &mut Tally) -> Result<Option<Failure>> {
        let batch = draw(seed, self.choice(seed))?;
        let failed = match &batch.subject {
            Subject::Generated { programs, shape } => {
                let elf = Bytes::from(batch::elf(programs, *shape)?);
                let cases = programs.iter().enumerate();
                let cases = cases.map(|(index, program)| case(&elf, index, program, &batch));
                self.compare_all(machine, &batch, &elf, cases, tally)?
            }
            Subject::Mutants(mutants) => {
                let mut failed = None;
                for (index, mutant) in mutants.iter().enumerate() {
                    let elf = mutant.to_bytes();
                    let cases = [mutant_case(&elf, &batch)].into_iter();
                    if let Some((_, difference)) = self.compare_all(machine, &batch, &elf, cases, tally)? {
                        failed = Some((index, difference));
                        break;
                    }
                }
                failed
            }
        };
        Ok(failed.map(|(index, difference)| Failure { seed, index, batch, difference, native: self.native }))
    }

    /// Compares cases that share one ELF; returns the first that differs.
    fn compare_all(
        &self,
        machine: &mut Machine,
        batch: &Batch,
        elf: &Bytes,
        cases: impl Iterator<Item = Case>,
        tally: &mut Tally,
    ) -> Result<Option<(usize, Difference)>> {
        let library = self.native.map(|tier| compiled(elf, batch, tier, tally)).transpose()?.flatten();
        let mut tested = Tested::new(machine, batch, elf, library);
        for (index, case) in cases.enumerate() {
            match tested.compare(&case)? {
                Ok(equal) => tally.count(batch.choice.name(), &equal),
                Err(difference) => return Ok(Some((index, difference))),
            }
        }
        Ok(None)
    }
}

/// Does `work` on `jobs` threads.
pub(crate) fn on_threads<T: Send>(jobs: usize, work: impl Fn() -> Result<T> + Sync) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(&work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
            .collect()
    })
}

/// The machine under test.
pub(super) enum Tested<'a> {
    /// The machine for single scripts.
    Machine(&'a mut Machine, Option<Library>),
    /// The machine for ckb-script.
    Session(Arc<MachineSession>),
}

impl<'a> Tested<'a> {
    /// The machine for the batch.
    pub(super) fn new(
        machine: &'a mut Machine,
        batch: &Batch,
        elf: &Bytes,
        library: Option<Library>,
    ) -> Self {
        if batch.code.is_none() {
            return Self::Machine(machine, library);
        }
        let program = library.and_then(|library| antares_vm::Program::new(elf.clone(), library).ok());
        Self::Session(MachineSession::new(Tier::Auto, program.into_iter().map(Arc::new).collect()))
    }

    pub(super) fn compare(&mut self, case: &Case) -> Result<Result<Equal, Difference>> {
        match self {
            Self::Machine(machine, library) => compare(machine, case, library.as_ref()),
            Self::Session(session) => Ok(compare_in(session, case)),
        }
    }
}

/// Draws the batch of `seed`.
///
/// # Errors
/// The scripts to mutate are not found.
pub fn draw(seed: u64, choice: Choice) -> Result<Batch> {
    let mut random = Random::new(seed);
    let options = draw_options(&mut random);
    let loader = choice == Choice::Generated(Kind::Loading) || random.one_in(2);
    let code = loader.then(|| loading::code(&mut random));
    let subject = match choice {
        Choice::Generated(kind) => {
            let mut shape = Shape::draw(&mut random, kind.form());
            // These programs access the pages after the code, which are usually writable.
            shape.has_constants_in_code &= !matches!(kind, Kind::Counted | Kind::Loading);
            let programs = (0..choice.count(seed)).map(|_| {
                let wild = random.one_in(3);
                program(random.bits(), Settings { options, kind, wild, loader })
            });
            Subject::Generated { programs: programs.collect(), shape }
        }
        Choice::Mutants => {
            let mutants = (0..choice.count(seed)).map(|_| mutant(&mut random));
            Subject::Mutants(mutants.collect::<Result<_>>()?)
        }
    };
    // Force the convention: few of these programs pass enough registers for the compiler to choose it.
    let convention = seed.is_multiple_of(3).then_some(Convention::Arguments);
    let lies = (seed % 4 == 1).then_some(seed);
    Ok(Batch { choice, options, convention, lies, subject, code })
}

/// The case of program `index` in the batch's ELF.
pub(super) fn case(elf: &Bytes, index: usize, program: &Program, batch: &Batch) -> Case {
    let args = vec![batch::argument(index)];
    Case { args, cycles_max: program.cycles_max, ..mutant_case(elf, batch) }
}

pub(super) fn mutant_case(elf: &Bytes, batch: &Batch) -> Case {
    let (elf, code) = (elf.clone(), batch.code.clone());
    Case { elf, args: Vec::new(), options: batch.options, cycles_max: MUTANT_CYCLES_MAX, code }
}

/// The batch's library; `None` if the compiler refuses it.
fn compiled(elf: &Bytes, batch: &Batch, tier: CodeTier, tally: &mut Tally) -> Result<Option<Library>> {
    match batch.compile(elf, tier)? {
        Ok(library) => {
            tally.libraries += 1;
            Ok(Some(library))
        }
        Err(reason) => {
            *tally.refused.entry(reason).or_default() += 1;
            Ok(None)
        }
    }
}

/// Checks that the campaign detects differences.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_do_not_depend_on_threads() {
        let campaign = Campaign { seed: 3, programs: 400, native: None, only: None };
        let alone = campaign.run(1, |_| ()).unwrap().0;
        let together = campaign.run(3, |_| ()).unwrap().0;
        assert_eq!(alone, together);
        assert!(alone.programs >= 400);
    }

    #[test]
    fn seeds_differ_by_batch_and_campaign() {
        let seeds = |seed| {
            let campaign = Campaign { seed, programs: 1, native: None, only: None };
            (0..50).map(move |index| campaign.batch_seed(index)).collect::<Vec<_>>()
        };
        let mut all: Vec<u64> = (0..4).flat_map(seeds).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 200);
    }
}
