//! Long runs of the differential test: `differential [--programs N] [--seed S] [--jobs J] [--kind KIND]
//! [--interpreter | --baseline] [--as-found]`. `differential --only SEED [--kind KIND]` runs one batch of a
//! failure report.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use std::{
    env, fs,
    process::exit,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use antares_abi::CodeTier;
use antares_tests::differential::{Campaign, Choice, Failure, Tally, disassembly, reduce};
use antares_vm::Machine;
use anyhow::{Context, Result, bail};

/// Programs between two progress lines.
const PROGRESS: u64 = 10_000;

fn main() -> Result<()> {
    let mut campaign = Campaign { seed: 1, programs: 20_000, native: Some(CodeTier::Full), only: None };
    let mut jobs = thread::available_parallelism().map_or(1, usize::from);
    let (mut only, mut is_reduced) = (None, true);
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--programs" => campaign.programs = number(&value()?)?,
            "--seed" => campaign.seed = number(&value()?)?,
            "--only" => only = Some(number(&value()?)?),
            "--jobs" => jobs = usize::try_from(number(&value()?)?)?,
            // Skips the reduction of failures, for speed.
            "--as-found" => is_reduced = false,
            "--interpreter" => campaign.native = None,
            "--baseline" => campaign.native = Some(CodeTier::Baseline),
            "--kind" => {
                let name = value()?;
                let found = Choice::all().find(|choice| choice.name() == name);
                campaign.only = Some(found.with_context(|| format!("no programs are called {name:?}"))?);
            }
            _ => {
                eprintln!(
                    "usage: differential [--programs N] [--seed S] [--jobs J] [--kind KIND] [--interpreter | --baseline] [--as-found] [--only SEED]\n\
                 kinds: {}",
                    Choice::all().map(Choice::name).collect::<Vec<_>>().join(" ")
                );
                exit(2);
            }
        }
    }
    let started = Instant::now();
    let (tally, failure) = match only {
        Some(seed) => {
            let mut tally = Tally::default();
            let failure = campaign.batch(&mut Machine::new()?, seed, &mut tally)?;
            (tally, failure)
        }
        None => run(&campaign, jobs, started)?,
    };
    println!("{tally}");
    let seconds = started.elapsed().as_secs_f64();
    println!("{:.1} s, {:.0} programs/s", seconds, tally.programs as f64 / seconds);
    report(failure, is_reduced)
}

/// A decimal number, or a hexadecimal one after `0x`.
fn number(text: &str) -> Result<u64> {
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    parsed.with_context(|| format!("{text:?} is no number"))
}

fn run(campaign: &Campaign, jobs: usize, started: Instant) -> Result<(Tally, Option<Failure>)> {
    let shown = AtomicU64::new(0);
    campaign.run(jobs, |tally| {
        if shown.fetch_max(tally.programs / PROGRESS, Ordering::Relaxed) < tally.programs / PROGRESS {
            eprintln!("{} programs, {:.0} s", tally.programs, started.elapsed().as_secs_f64());
        }
    })
}

fn report(failure: Option<Failure>, is_reduced: bool) -> Result<()> {
    let Some(failure) = failure else { return Ok(()) };
    let (options, choice) = (failure.batch.options, failure.batch.choice);
    println!("DIFFERENT in batch {:#x}, program {}: {}", failure.seed, failure.index, failure.difference);
    println!("{}, version {}, isa {}", choice.name(), options.vm_version, options.isa);
    let reduced = if is_reduced { reduce(&mut Machine::new()?, &failure)? } else { None };
    match reduced {
        Some(reduced) => {
            let file = format!("different-{:x}.elf", failure.seed);
            fs::write(&file, &reduced.elf)?;
            println!("reduced, program {} of {file}: {}", reduced.index, disassembly(&reduced));
        }
        None if is_reduced => println!("does not fail again when it is reduced"),
        None => {}
    }
    bail!("a program differs; run it again with --only {:#x} --kind {}", failure.seed, choice.name())
}
