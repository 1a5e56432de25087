//! What a stage shows of an ELF: the compiler's text without what is the same in every library, or a run's outcome.

use antares_compiler::Stage;
use antares_tests::{differential::compare, native, oracle};
use antares_vm::Machine;
use anyhow::{Context, Result, bail};
use bytes::Bytes;

use crate::case::Case;

/// Cycle limit of outcomes.
const CYCLES_MAX: u64 = 1_000_000;

/// What one stage shows.
pub(crate) struct Shown {
    pub(crate) stage: String,
    pub(crate) lines: Vec<String>,
}

/// Shows `stage` of `elf`.
pub(crate) fn show(case: &Case, elf: &[u8], stage: &str) -> Result<Shown> {
    let text =
        |stage| -> Result<String> { Ok(String::from_utf8(native::output(elf, case.options, stage)?.bytes)?) };
    let owned = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let lines = match stage {
        "image" => owned(text(Stage::Image)?),
        "program" => owned(text(Stage::Program)?),
        "ir" => owned(text(Stage::Ir)?),
        "llvm" => functions(&text(Stage::LlvmBefore)?),
        "optimised" => functions(&text(Stage::Llvm)?),
        "asm" => instructions(&text(Stage::Asm)?),
        "outcome" => outcome(case, elf)?,
        _ => bail!("no stage is named {stage:?}"),
    };
    Ok(Shown { stage: stage.to_owned(), lines })
}

/// The guest's functions of a module of LLVM IR, without the thunks and stubs that every library has.
fn functions(module: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut is_inside = false;
    for line in module.lines() {
        is_inside |= line.starts_with("define ") && line.contains("@guest_");
        if is_inside {
            lines.push(line.to_owned());
        }
        is_inside &= line != "}";
    }
    lines
}

/// The guest's functions of an assembly file (and their thunks, into which small ones are inlined), without directives
/// and tables.
fn instructions(assembly: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut is_inside = false;
    for line in assembly.lines() {
        let is_symbol = line.ends_with(':') && !line.starts_with('.');
        if is_symbol {
            is_inside = line.starts_with("guest_") || line.starts_with("enter_");
        }
        let is_directive = line.trim_start().starts_with('.') && !line.ends_with(':');
        if is_inside && !is_directive && !line.trim().is_empty() {
            lines.push(line.replace('\t', "  "));
        }
    }
    lines
}

/// How a run ends; it must end so on every tier and in ckb-vm.
fn outcome(case: &Case, elf: &[u8]) -> Result<Vec<String>> {
    let oracle_case = oracle::Case {
        elf: Bytes::copy_from_slice(elf),
        args: case.args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes())).collect(),
        options: case.options,
        cycles_max: CYCLES_MAX,
        code: None,
    };
    let library =
        native::compile(elf, case.options)?.map_err(|reason| anyhow::anyhow!("refused: {reason}"))?;
    let compared = compare(&mut Machine::new()?, &oracle_case, Some(&library))?;
    let equal = compared.map_err(|difference| anyhow::anyhow!("{difference}")).context("unlike ckb-vm")?;
    let tier = equal.restarted.map_or_else(
        || "native".to_owned(),
        |reason| format!("interpreted, native code left: {}", reason.name()),
    );
    let mut lines = vec![format!("{}, {} cycles, {tier}", equal.outcome, equal.cycles)];
    lines.extend(equal.debug.iter().map(|line| format!("debug: {line}")));
    Ok(lines)
}
