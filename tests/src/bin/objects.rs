//! Prints digests of the compiler's output for many programs, one per line: `objects [--code]`.
//!
//! Commits with equal output generate the same code, as a pure refactoring of the compiler must: compare the
//! output on both commits with `diff`. The programs are all guests, the corpus, and generated ones of each kind.
//! The digests cover the IR and the baseline's library; with `--code` also the full tier's library, which takes
//! minutes.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use std::env;

use antares_abi::{CompileOptions, Sha256Digest};
use antares_compiler::Stage;
use antares_tests::{
    corpus,
    differential::{Batch, Choice, Subject, draw},
    generate::batch,
    guests, native,
};
use anyhow::{Result, ensure};

/// Generated ELF files of each kind.
const BATCHES: u64 = 24;

fn main() -> Result<()> {
    let mut stages = vec![("ir", Stage::Ir), ("baseline", Stage::Baseline)];
    for argument in env::args().skip(1) {
        ensure!(argument == "--code", "usage: objects [--code]");
        stages.push(("library", Stage::Library));
    }
    for (name, options, elf) in programs()? {
        for (stage_name, stage) in &stages {
            println!("{name} {stage_name} {}", digest(&elf, options, *stage));
        }
    }
    Ok(())
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
    for choice in Choice::all() {
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
