//! Shrinks a failing program: drops other programs, then items, as long as a difference remains.

use std::{fmt::Write as _, process::Command};

use antares_vm::Machine;
use anyhow::Result;
use bytes::Bytes;

use super::{Difference, Failure, campaign::case, compare};
use crate::{
    asm::Item,
    generate::{Program, batch},
    native,
};

/// Attempts, so that shrinking ends.
const ATTEMPTS_MAX: u32 = 3000;

/// The smallest failing program that was found.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// The program's ELF.
    pub elf: Bytes,
    /// Its place in the ELF.
    pub index: usize,
    /// What differs now.
    pub difference: Difference,
    /// What is left of it.
    pub program: Program,
}

struct Reducer<'a> {
    machine: &'a mut Machine,
    failure: &'a Failure,
    attempts: u32,
    best: Option<Reduced>,
}

/// Shrinks `failure`; `None` if it does not fail again.
///
/// # Errors
///
/// The machine failed.
pub fn reduce(machine: &mut Machine, failure: &Failure) -> Result<Option<Reduced>> {
    let mut reducer = Reducer { machine, failure, attempts: 0, best: None };
    let alone = failure.programs[failure.index].clone();
    let (others, index) = if reducer.fails(std::slice::from_ref(&alone), 0)? {
        (vec![alone], 0)
    } else if reducer.fails(&failure.programs, failure.index)? {
        (failure.programs.clone(), failure.index)
    } else {
        return Ok(None);
    };
    reducer.shrink(others, index)?;
    Ok(reducer.best)
}

impl Reducer<'_> {
    /// Whether program `index` still differs; keeps it if it does.
    fn fails(&mut self, programs: &[Program], index: usize) -> Result<bool> {
        self.attempts += 1;
        let Failure { options, shape, .. } = *self.failure;
        let Ok(elf) = batch::elf(programs, shape) else { return Ok(false) };
        let elf = Bytes::from(elf);
        let Ok(Ok(library)) = native::compile(&elf, options) else { return Ok(false) };
        let case = case(&elf, index, &programs[index], options);
        let Err(difference) = compare(self.machine, &case, Some(&library))? else { return Ok(false) };
        self.best = Some(Reduced { elf, index, difference, program: programs[index].clone() });
        Ok(true)
    }

    /// Drops ranges of items, halves first, single ones last, until nothing more can go.
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

/// The program's code, disassembled by the RISC-V binutils if they are there.
#[must_use]
pub fn disassembly(reduced: &Reduced) -> String {
    let mut text = format!("{}\n", reduced.difference);
    for item in reduced.program.text.iter().filter(|item| !matches!(item, Item::Label(_))) {
        let _ = writeln!(text, "  {item:x?}");
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
