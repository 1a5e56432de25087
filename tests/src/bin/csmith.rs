//! Runs programs of csmith through all tiers: `csmith [--programs N] [--seed S] [--jobs J]`, and `csmith
//! --only SEED` for one program of a failure report. Compiles each with gcc and with clang. Requires Debian's
//! packages `csmith` and `libcsmith-dev`, which no other test needs.
#![allow(clippy::print_stdout, reason = "a command line tool")]
#![forbid(unsafe_code)]

use std::{
    env,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use antares_tests::csmith::{Compared, Compiler, check};
use antares_vm::Machine;
use anyhow::{Context, Result, bail};

/// Programs between two progress lines.
const PROGRESS: u64 = 50;

#[derive(Default)]
struct Tally {
    binaries: u64,
    ended: u64,
    cycles: u64,
    native_cycles: u64,
    /// Programs with different checksums by the two compilers: a bug of theirs or of the program, not ours.
    disagreements: u64,
    failures: Vec<String>,
}

impl Tally {
    fn add(&mut self, compared: &Compared) {
        self.binaries += 1;
        // An endless program is stopped, and then all of it was interpreted.
        if compared.checksum.is_some() {
            self.ended += 1;
            self.cycles += compared.cycles;
            self.native_cycles += compared.native_cycles;
        }
    }
}

fn main() -> Result<()> {
    let (mut programs, mut seed, mut only) = (1000, 1, None);
    let mut jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
        let number: u64 = value.parse().with_context(|| format!("{value:?} is no number"))?;
        match argument.as_str() {
            "--programs" => programs = number,
            "--seed" => seed = number,
            "--jobs" => jobs = usize::try_from(number)?,
            "--only" => only = Some(number),
            _ => bail!("usage: csmith [--programs N] [--seed S] [--jobs J] [--only SEED]"),
        }
    }
    let seeds = match only {
        Some(one) => one..one + 1,
        None => seed..seed + programs,
    };
    let (next, tally) = (AtomicU64::new(seeds.start), Mutex::new(Tally::default()));
    let work = || {
        let Ok(mut machine) = Machine::new() else { return };
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let done = Compiler::ALL.map(|compiler| (compiler, check(&mut machine, seed, compiler)));
            record(&mut tally.lock().unwrap_or_else(PoisonError::into_inner), seed, done);
        }
    };
    thread::scope(|scope| (0..jobs.max(1)).for_each(|_| drop(scope.spawn(work))));
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{tally}");
    if tally.failures.is_empty() { Ok(()) } else { bail!("{} binaries differ or fail", tally.failures.len()) }
}

fn record(tally: &mut Tally, seed: u64, done: [(Compiler, Result<Compared>); 2]) {
    let mut sums = Vec::new();
    for (compiler, compared) in done {
        match compared {
            Ok(compared) => {
                tally.add(&compared);
                if let (Some(reason), Some(_)) = (compared.restarted, &compared.checksum) {
                    println!("--only {seed}, {}: interpreted for {reason:?}", compiler.command());
                }
                sums.extend(compared.checksum);
            }
            Err(error) => {
                let line = format!("--only {seed}, {}: {error:#}", compiler.command());
                println!("{line}");
                tally.failures.push(line);
            }
        }
    }
    tally.disagreements += u64::from(matches!(sums.as_slice(), [a, b] if a != b));
    if tally.binaries > 0 && tally.binaries.is_multiple_of(2 * PROGRESS) {
        println!("{tally}");
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let share = self.native_cycles as f64 * 100.0 / self.cycles.max(1) as f64;
        write!(
            f,
            "{} binaries, {} of them to their end: {} cycles, {share:.2} % native; {} checksums that the compilers disagree on, {} failures",
            self.binaries,
            self.ended,
            self.cycles,
            self.disagreements,
            self.failures.len()
        )
    }
}
