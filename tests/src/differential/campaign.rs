//! Many random programs from one seed: generated in batches, compiled, compared, counted.

use std::{collections::BTreeMap, thread};

use antares_abi::CompileOptions;
use antares_vm::{Library, Machine};
use anyhow::{Context, Result, bail};
use bytes::Bytes;

use super::{Difference, Equal, compare};
use crate::{
    generate::{
        Kind, Program, Random, Settings,
        batch::{self, Shape},
        draw_options, program,
    },
    native,
    oracle::Case,
};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// Seed of it all.
    pub seed: u64,
    /// How many programs.
    pub programs: u64,
    /// Programs in one ELF.
    pub batch: usize,
    /// Whether to compile; else the interpreter tier is compared.
    pub native: bool,
    /// Whether all programs are short, so that more of them fit into the same time.
    pub short: bool,
}

/// A program that differs.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Seed of the batch.
    pub seed: u64,
    /// Which program of the batch.
    pub index: usize,
    /// All programs of the batch.
    pub programs: Vec<Program>,
    /// VM version and ISA.
    pub options: CompileOptions,
    /// The batch's layout.
    pub shape: Shape,
    /// What differs.
    pub difference: Difference,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Programs that were compared.
    pub programs: u64,
    /// Of them, those that ran to their exit in native code.
    pub native: u64,
    /// Guest cycles.
    pub cycles: u64,
    /// Outcomes.
    pub outcomes: BTreeMap<String, u64>,
    /// Why native code was left.
    pub restarts: BTreeMap<&'static str, u64>,
    /// Batches that the compiler refused, by reason.
    pub refused: BTreeMap<String, u64>,
}

impl Campaign {
    /// As [`Campaign::run`], on `jobs` threads with seeds of their own; the tallies are added up.
    ///
    /// # Errors
    ///
    /// As [`Campaign::run`].
    pub fn run_on(&self, jobs: u64, each: impl Fn(&Tally) + Sync) -> Result<(Tally, Option<Failure>)> {
        let (each, mut seeds) = (&each, Random::new(self.seed));
        let parts: Vec<Self> = (0..jobs)
            .map(|job| {
                let programs = self.programs / jobs + u64::from(job < self.programs % jobs);
                Self { seed: seeds.bits(), programs, ..*self }
            })
            .collect();
        let ended: Vec<Result<_>> = thread::scope(|scope| {
            let threads: Vec<_> = parts.iter().map(|part| scope.spawn(move || part.run(each))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
                .collect()
        });
        let (mut tally, mut failure) = (Tally::default(), None);
        for part in ended {
            let (seen, failed) = part?;
            tally.add(seen);
            failure = failure.or(failed);
        }
        Ok((tally, failure))
    }

    /// Runs programs until one differs or all are done; `each` sees the tally after every batch.
    ///
    /// # Errors
    ///
    /// The compiler or the machine failed.
    pub fn run(&self, mut each: impl FnMut(&Tally)) -> Result<(Tally, Option<Failure>)> {
        let mut machine = Machine::new()?;
        let mut tally = Tally::default();
        let mut seeds = Random::new(self.seed);
        while tally.programs < self.programs {
            let seed = seeds.bits();
            let failure = self.batch(&mut machine, seed, &mut tally);
            if let Some(failure) = failure.with_context(|| format!("batch with seed {seed:#x}"))? {
                return Ok((tally, Some(failure)));
            }
            each(&tally);
        }
        Ok((tally, None))
    }

    /// Generates, compiles and compares the batch of `seed`.
    ///
    /// # Errors
    ///
    /// The compiler or the machine failed.
    pub fn batch(&self, machine: &mut Machine, seed: u64, tally: &mut Tally) -> Result<Option<Failure>> {
        let (programs, options, shape) = draw(seed, self.batch, self.short);
        let elf = Bytes::from(batch::elf(&programs, shape)?);
        let library = if self.native { compiled(&elf, options, tally)? } else { None };
        for (index, program) in programs.iter().enumerate() {
            let case = case(&elf, index, program, options);
            match compare(machine, &case, library.as_ref())? {
                Ok(equal) => tally.count(equal),
                Err(difference) => {
                    return Ok(Some(Failure { seed, index, programs, options, shape, difference }));
                }
            }
        }
        Ok(None)
    }
}

/// The programs of the batch of `seed`.
#[must_use]
pub fn draw(seed: u64, count: usize, short: bool) -> (Vec<Program>, CompileOptions, Shape) {
    let mut random = Random::new(seed);
    let options = draw_options(&mut random);
    let shape = Shape::draw(&mut random);
    let programs = (0..count).map(|_| {
        let kind = if short { Kind::Short } else { random.pick(&[Kind::Stream, Kind::Structured]) };
        let wild = random.one_in(3);
        program(random.bits(), Settings { options, kind, wild })
    });
    (programs.collect(), options, shape)
}

/// Program `index` of the batch `elf`, as it is run.
pub(super) fn case(elf: &Bytes, index: usize, program: &Program, options: CompileOptions) -> Case {
    Case { elf: elf.clone(), args: vec![batch::argument(index)], options, cycles_max: program.cycles_max }
}

/// The batch's library, if the compiler takes it.
fn compiled(elf: &Bytes, options: CompileOptions, tally: &mut Tally) -> Result<Option<Library>> {
    match native::compile(elf, options)? {
        Ok(library) => Ok(Some(library)),
        Err(reason) => {
            *tally.refused.entry(reason).or_default() += 1;
            Ok(None)
        }
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.programs += other.programs;
        self.native += other.native;
        self.cycles += other.cycles;
        other.outcomes.into_iter().for_each(|(name, count)| *self.outcomes.entry(name).or_default() += count);
        other.restarts.into_iter().for_each(|(name, count)| *self.restarts.entry(name).or_default() += count);
        other.refused.into_iter().for_each(|(name, count)| *self.refused.entry(name).or_default() += count);
    }

    fn count(&mut self, equal: Equal) {
        self.programs += 1;
        self.native += u64::from(equal.native_cycles > 0);
        self.cycles += equal.cycles;
        let kind = equal.outcome.split('(').next().unwrap_or_default().to_owned();
        *self.outcomes.entry(kind).or_default() += 1;
        if let Some(reason) = equal.restarted {
            *self.restarts.entry(reason.name()).or_default() += 1;
        }
    }
}
