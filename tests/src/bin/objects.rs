//! Prints digests of the compiler's output for many programs, one per line: `objects [--code] [--against
//! FILE]`.
//!
//! Commits with equal output generate the same code, as a pure refactoring of the compiler must: run `objects
//! > before` on the first commit, and `objects --against before` on the second. The programs are all guests,
//! the corpus, and generated ones of each kind. The digests cover the IR and the baseline's library; with
//! `--code` also the full tier's library, which takes minutes.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use std::{collections::BTreeMap, env, fs, process::exit};

use antares_abi::{CompileOptions, Sha256Digest};
use antares_compiler::Stage;
use antares_tests::{
    corpus,
    differential::{Batch, Choice, Subject, draw},
    generate::batch,
    guests, native,
};
use anyhow::{Context, Result};

/// Generated ELF files of each kind.
const BATCHES: u64 = 24;

fn main() -> Result<()> {
    let (mut stages, mut against) = (vec![("ir", Stage::Ir), ("baseline", Stage::Baseline)], None);
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--code" => stages.push(("library", Stage::Library)),
            "--against" => against = Some(arguments.next().context("--against needs a file")?),
            _ => {
                eprintln!("usage: objects [--code] [--against FILE]");
                exit(2);
            }
        }
    }
    let before = against.map(|path| fs::read_to_string(&path).with_context(|| format!("reading {path}")));
    let before = before.transpose()?;
    let known: Option<BTreeMap<&str, &str>> =
        before.as_ref().map(|text| text.lines().filter_map(|line| line.rsplit_once(' ')).collect());
    let mut differ = 0;
    for (name, options, elf) in programs()? {
        for (stage_name, stage) in &stages {
            let what = format!("{name} {stage_name}");
            let shown = digest(&elf, options, *stage);
            match &known {
                None => println!("{what} {shown}"),
                Some(known) if known.get(what.as_str()).is_some_and(|before| *before != shown) => {
                    println!("{what} differs");
                    differ += 1;
                }
                Some(_) => {}
            }
        }
    }
    if let Some(known) = known {
        println!("{differ} of {} differ", known.len());
    }
    exit(i32::from(differ > 0));
}

/// Digest of a stage's output, or the reason of a refusal.
fn digest(elf: &[u8], options: CompileOptions, stage: Stage) -> String {
    match native::output(elf, options, stage) {
        Ok(output) => Sha256Digest::of(&output.bytes).to_string(),
        Err(error) => format!("{error:#}").replace(' ', "_"),
    }
}

/// Names, options and bytes of all programs.
fn programs() -> Result<Vec<(String, CompileOptions, Vec<u8>)>> {
    let mut programs = Vec::new();
    for guest in guests::guests() {
        programs.push((guest.name.clone(), corpus::OPTIONS, guests::bytes(&guest.name)?));
    }
    for program in corpus::programs(1)? {
        programs.push((program.name.replace(' ', "-"), corpus::OPTIONS, program.elf));
    }
    for choice in Choice::ALL {
        for seed in 0..BATCHES {
            let batch = draw(seed, choice)?;
            for (index, elf) in elfs(&batch)?.into_iter().enumerate() {
                programs.push((format!("{}-{seed}-{index}", choice.name()), batch.options, elf));
            }
        }
    }
    Ok(programs)
}

fn elfs(batch: &Batch) -> Result<Vec<Vec<u8>>> {
    Ok(match &batch.subject {
        Subject::Generated { programs, shape } => vec![batch::elf(programs, *shape)?],
        Subject::Mutants(mutants) => mutants.iter().map(|mutant| mutant.to_bytes().to_vec()).collect(),
    })
}
