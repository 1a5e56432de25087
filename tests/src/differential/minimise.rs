//! Minimises a failing program: removes other programs, then items, as long as a difference remains.

use std::{fmt::Write as _, process::Command};

use antares_abi::CodeTier;
use antares_vm::Machine;
use anyhow::Result;
use bytes::Bytes;

use super::{
    campaign::{Batch, Failure, Subject, Tested, case, mutant_case},
    compare::Difference,
};
use crate::{
    asm::Item,
    generate::{
        Program,
        batch::{self, Shape},
        mutant::Mutant,
    },
    oracle::Case,
};

/// Maximum attempts, to bound the time.
const ATTEMPTS_MAX: u32 = 3000;

/// The smallest failing program found.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// The program's ELF.
    pub elf: Bytes,
    /// Its index in the ELF.
    pub index: usize,
    /// The remaining difference.
    pub difference: Difference,
    /// Its remaining parts: items of a generated program, flipped bits of a mutant.
    pub rest: Vec<String>,
}

struct Reducer<'a> {
    machine: &'a mut Machine,
    batch: &'a Batch,
    tier: CodeTier,
    shape: Option<Shape>,
    attempts: u32,
    best: Option<Reduced>,
}

/// Minimises `failure`; `None` if it cannot be reproduced.
///
/// # Errors
/// The machine failed.
pub fn reduce(machine: &mut Machine, failure: &Failure) -> Result<Option<Reduced>> {
    let batch = &failure.batch;
    let mut reducer = Reducer {
        machine,
        batch,
        tier: failure.native.unwrap_or(CodeTier::Full),
        shape: None,
        attempts: 0,
        best: None,
    };
    match &batch.subject {
        Subject::Generated { programs, shape } => {
            reducer.shape = Some(*shape);
            let alone = programs[failure.index].clone();
            if reducer.fails(std::slice::from_ref(&alone), 0)? {
                reducer.shrink(vec![alone], 0)?;
            } else if reducer.fails(programs, failure.index)? {
                reducer.shrink(programs.clone(), failure.index)?;
            }
        }
        Subject::Mutants(mutants) => reducer.revert(mutants[failure.index].clone())?,
    }
    Ok(reducer.best)
}

impl Reducer<'_> {
    /// Whether program `index` still differs; records it if so.
    fn fails(&mut self, programs: &[Program], index: usize) -> Result<bool> {
        let Some(shape) = self.shape else { return Ok(false) };
        let Ok(elf) = batch::elf(programs, shape) else { return Ok(false) };
        let elf = Bytes::from(elf);
        let case = case(&elf, index, &programs[index], self.batch);
        let Some(difference) = self.difference(&case)? else { return Ok(false) };
        let items = programs[index].text.iter().filter(|item| !matches!(item, Item::Label(_)));
        let rest = items.map(|item| format!("{item:x?}")).collect();
        self.best = Some(Reduced { elf, index, difference, rest });
        Ok(true)
    }

    /// The native difference. A refused program, or one that fails to compile, does not differ.
    fn difference(&mut self, case: &Case) -> Result<Option<Difference>> {
        self.attempts += 1;
        let Ok(Ok(library)) = self.batch.compile(&case.elf, self.tier) else {
            return Ok(None);
        };
        let mut tested = Tested::new(self.machine, self.batch, &case.elf, Some(library));
        Ok(tested.compare(case)?.err())
    }

    /// Reverts flipped bits of a mutant as long as a difference remains.
    fn revert(&mut self, mut mutant: Mutant) -> Result<()> {
        let mut tries = vec![mutant.clone()];
        while let Some(tried) = tries.pop() {
            let elf = tried.to_bytes();
            let Some(difference) = self.difference(&mutant_case(&elf, self.batch))? else { continue };
            let rest = tried.flips.iter().map(|(at, mask)| format!("{}+{at:#x}: {mask:#04x}", tried.script));
            self.best = Some(Reduced { elf, index: 0, difference, rest: rest.collect() });
            mutant = tried;
            tries = vec![mutant.clone(); mutant.flips.len()];
            for (index, fewer) in tries.iter_mut().enumerate() {
                fewer.flips.remove(index);
            }
        }
        Ok(())
    }

    /// Removes ranges of items, from halves down to single items, until no more can be removed.
    fn shrink(&mut self, mut programs: Vec<Program>, index: usize) -> Result<()> {
        let mut width = programs[index].text.len() / 2;
        while width > 0 && self.attempts < ATTEMPTS_MAX {
            let mut progress = false;
            let mut at = 1;
            while at < programs[index].text.len() && self.attempts < ATTEMPTS_MAX {
                let mut tried = programs.clone();
                let text = &mut tried[index].text;
                let end = (at + width).min(text.len());
                let before = text.len();
                let kept: Vec<Item> =
                    text.drain(at..end).filter(|item| matches!(item, Item::Label(_))).collect();
                text.splice(at..at, kept);
                if text.len() < before && self.fails(&tried, index)? {
                    programs = tried;
                    progress = true;
                } else {
                    at += width;
                }
            }
            if !progress || width > 1 {
                width /= 2;
            }
        }
        Ok(())
    }
}

/// Disassembles the program's code with the RISC-V binutils, if installed.
#[must_use]
pub fn disassembly(reduced: &Reduced) -> String {
    let mut text = format!("{}\n", reduced.difference);
    for item in &reduced.rest {
        let _ = writeln!(text, "  {item}");
    }
    let Ok(file) = tempfile::NamedTempFile::new() else { return text };
    if std::fs::write(file.path(), &reduced.elf).is_err() {
        return text;
    }
    let output = Command::new("llvm-objdump-22")
        .args(["-d", "-M", "no-aliases", "--mattr=+m,+c,+a,+zba,+zbb,+zbc,+zbs"])
        .arg(file.path())
        .output();
    if let Ok(output) = output {
        text.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    text
}
