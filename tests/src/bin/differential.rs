//! Long runs of the differential test: `differential --programs N --seed S [--batch B] [--jobs J] [--short] [--interpreter]`.
#![allow(clippy::print_stdout, reason = "a command line tool")]
#![forbid(unsafe_code)]

use std::{
    env, fs,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use antares_tests::differential::{Campaign, Failure, Tally, disassembly, reduce};
use antares_vm::Machine;
use anyhow::{Context, Result, bail};

fn main() -> Result<()> {
    let mut campaign = Campaign { seed: 1, programs: 10_000, batch: 40, native: true, short: false };
    let mut jobs = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<u64> {
            let text = arguments.next().with_context(|| format!("{argument} needs a number"))?;
            Ok(text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16))?)
        };
        match argument.as_str() {
            "--programs" => campaign.programs = number()?,
            "--seed" => campaign.seed = number()?,
            "--batch" => campaign.batch = usize::try_from(number()?)?,
            // The seed of one batch, as a failure names it.
            "--only" => return only(campaign, number()?),
            "--jobs" => jobs = number()?.max(1),
            "--interpreter" => campaign.native = false,
            "--short" => campaign.short = true,
            _ => bail!(
                "usage: differential [--programs N] [--seed S] [--batch B] [--jobs J] [--only SEED] [--interpreter] [--short]"
            ),
        }
    }
    let started = Instant::now();
    let done = AtomicU64::new(0);
    let batch = campaign.batch as u64;
    let (tally, failure) = campaign.run_on(jobs, |_| {
        let programs = done.fetch_add(batch, Ordering::Relaxed) + batch;
        if programs / 1000 > (programs - batch) / 1000 {
            eprintln!("{programs} programs, {:.0} s", started.elapsed().as_secs_f64());
        }
    })?;
    show(&tally, started);
    report(failure)
}

fn only(campaign: Campaign, seed: u64) -> Result<()> {
    let mut tally = Tally::default();
    let failure = campaign.batch(&mut Machine::new()?, seed, &mut tally)?;
    show(&tally, Instant::now());
    report(failure)
}

fn show(tally: &Tally, started: Instant) {
    println!(
        "{} programs equal, {} of them natively to the exit, {} cycles, {:.1} s",
        tally.programs,
        tally.native,
        tally.cycles,
        started.elapsed().as_secs_f64()
    );
    println!("outcomes: {:?}", tally.outcomes);
    println!("native code left: {:?}", tally.restarts);
    println!("refused: {:?}", tally.refused);
}

fn report(failure: Option<Failure>) -> Result<()> {
    let Some(failure) = failure else { return Ok(()) };
    println!("DIFFERENT in batch {:#x}, program {}: {}", failure.seed, failure.index, failure.difference);
    println!("version {}, isa {}, {:?}", failure.options.vm_version, failure.options.isa, failure.shape);
    match reduce(&mut Machine::new()?, &failure)? {
        Some(reduced) => {
            let file = format!("different-{:x}.elf", failure.seed);
            fs::write(&file, &reduced.elf)?;
            println!("reduced, program {} of {file}: {}", reduced.index, disassembly(&reduced));
        }
        None => println!("does not fail again when it is reduced"),
    }
    bail!("a program differs")
}
