//! Output of a stage for an ELF: the compiler's text without the parts common to all libraries, or a run's
//! outcome.

use antares_abi::{CodeTier, Hints};
use antares_baseline::Listing;
use antares_compiler::Stage;
use antares_tests::{corpus, native};
use antares_vm::Machine;
use anyhow::{Context, Result, bail};
use iced_x86::{Decoder, DecoderOptions, Formatter as _, Instruction, IntelFormatter};

use crate::case::Case;

/// Bits of counter numbers in code with counters.
const COUNTER_BITS: u8 = 12;

/// Output of one stage.
pub(crate) struct Shown {
    pub(crate) stage: String,
    pub(crate) lines: Vec<String>,
}

pub(crate) fn show(case: &Case, elf: &[u8], stage: &str) -> Result<Shown> {
    let text =
        |stage| -> Result<String> { Ok(String::from_utf8(native::output(elf, case.options, stage)?.bytes)?) };
    let owned = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let lines = match stage {
        "image" => owned(text(Stage::Image)?),
        "program" => owned(text(Stage::Program)?),
        "lifted" => owned(text(Stage::IrAfter { passes: 0 })?),
        "ir" => owned(text(Stage::Ir)?),
        "llvm" => functions(&text(Stage::LlvmBefore)?),
        "optimised" => functions(&text(Stage::Llvm)?),
        "asm" => instructions(&text(Stage::Asm)?),
        "baseline" => baseline(&antares_baseline::listing(&case.module(CodeTier::Baseline)?, None)?),
        "counted" => baseline(&antares_baseline::listing(&case.counted_module()?, Some(COUNTER_BITS))?),
        "outcome" => outcome(case)?,
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

/// The guest's functions of an assembly file (and their thunks, into which small ones are inlined), without
/// directives and tables.
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

/// The guest's functions as the baseline generates them. Addresses inside a function are relative to its
/// start.
fn baseline(listing: &Listing) -> Vec<String> {
    let mut lines = Vec::new();
    for (entry, range) in &listing.functions {
        lines.push(format!("function at {:#x}:", entry.0));
        let decoder =
            Decoder::with_ip(64, &listing.code[range.clone()], range.start as u64, DecoderOptions::NONE);
        lines.extend(
            decoder.into_iter().map(|instruction| host_instruction(listing, range.start, &instruction)),
        );
    }
    lines
}

/// One host instruction, with symbolic jump targets.
fn host_instruction(listing: &Listing, start: usize, instruction: &Instruction) -> String {
    let at = usize::try_from(instruction.ip()).map_or(0, |at| at - start);
    let mut text = String::new();
    if instruction.near_branch_target() == 0 {
        IntelFormatter::new().format(instruction, &mut text);
        return format!("  {at:4x}  {text}");
    }
    let target = usize::try_from(instruction.near_branch_target()).unwrap_or(0);
    let stub = listing.stubs.iter().find(|(_, place)| *place == target);
    let function = listing.functions.iter().find(|(_, range)| range.start == target);
    let name = match (stub, function) {
        (Some((name, _)), _) => (*name).to_owned(),
        (_, Some((entry, _))) => format!("function at {:#x}", entry.0),
        _ => format!("{:x}", target.wrapping_sub(start)),
    };
    format!("  {at:4x}  {} {name}", format!("{:?}", instruction.mnemonic()).to_lowercase())
}

/// Outcome of a run; must be the same in every tier and in ckb-vm.
fn outcome(case: &Case) -> Result<Vec<String>> {
    let case = case.oracle_case()?;
    let run = |tier| corpus::run(&mut Machine::new()?, &case, tier, &Hints::default());
    run(CodeTier::Baseline).context("the baseline")?;
    let equal = run(CodeTier::Full)?;
    let tier = equal.restarted.map_or_else(
        || "native".to_owned(),
        |reason| format!("interpreted, native code left: {}", reason.name()),
    );
    let mut lines = vec![format!("{}, {} cycles, {tier}", equal.outcome, equal.cycles)];
    lines.extend(equal.debug.iter().map(|line| format!("debug: {line}")));
    Ok(lines)
}
