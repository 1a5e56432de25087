//! Coverage of recovery: the share of a program's executable bytes, and of the addresses that a run executes.

use std::collections::{BTreeSet, HashMap, HashSet};

use antares_abi::{CompileLimits, CompileOptions, Hints, Isa};
use antares_program::{Program, Terminator};
use anyhow::{Context, Result};
use bytes::Bytes;
use ckb_vm::{
    CoreMachine, DefaultCoreMachine, DefaultMachineBuilder, Error, SparseMemory, SupportMachine, Syscalls,
    WXorXMemory, decoder::build_decoder,
};

/// Maximum traced instructions of a run.
const STEPS_MAX: u64 = 1_000_000;

/// Coverage of a program.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Bytes of executable pages.
    pub code_bytes: u64,
    /// Executable bytes that belong to recovered instructions.
    pub known_bytes: u64,
    /// Addresses that the run executed.
    pub executed: usize,
    /// Executed addresses that recovery knows.
    pub executed_known: usize,
    /// Targets of indirect calls and jumps that are neither entries nor labels.
    pub missed: BTreeSet<u64>,
}

/// Discards debug output.
struct Quiet;

impl<M: SupportMachine> Syscalls<M> for Quiet {
    fn initialize(&mut self, _machine: &mut M) -> Result<(), Error> {
        Ok(())
    }

    fn ecall(&mut self, _machine: &mut M) -> Result<bool, Error> {
        Ok(true)
    }
}

/// Recovers `elf` and runs it with `args`. System calls other than exit do nothing.
///
/// # Errors
/// Recovery refuses the ELF.
pub fn measure(elf: &[u8], args: &[Bytes], vm_version: u32) -> Result<Coverage> {
    let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
    let limits = CompileLimits::default();
    let image = antares_program::read(elf, options, &limits)?;
    let program = antares_program::recover(&image, &limits, &Hints::default())?;
    let mut known = HashSet::new();
    let mut coverage = Coverage { code_bytes: program.code_end - program.code_start, ..Coverage::default() };
    for block in program.functions.iter().flat_map(|function| &function.blocks) {
        for (pc, instruction) in &block.instructions {
            if known.insert(pc.0) {
                coverage.known_bytes += u64::from(instruction.length);
            }
        }
    }
    let entries = program.functions.iter().filter(|function| function.is_exposed);
    let entries: HashSet<u64> = entries.map(|function| function.entry.0).collect();
    let (executed, called) = trace(elf, args, options, &program)?;
    coverage.executed = executed.len();
    coverage.executed_known = executed.intersection(&known).count();
    coverage.missed = called.difference(&entries).copied().collect();
    Ok(coverage)
}

/// Indirect calls and jumps, with the candidate labels of each jump.
fn calls(program: &Program) -> HashMap<u64, HashSet<u64>> {
    let mut calls: HashMap<u64, HashSet<u64>> = HashMap::new();
    let mut returns = Vec::new();
    for function in &program.functions {
        for block in &function.blocks {
            let Some((pc, _)) = block.instructions.last() else { continue };
            let labels: &[_] = match &block.terminator {
                Terminator::IndirectCall { .. } => &[],
                Terminator::IndirectJump { candidates, .. } => candidates,
                // Code recovered with link register t0 may also be recovered with ra, where its return is a
                // jump.
                Terminator::Return { .. } => {
                    returns.push(pc.0);
                    continue;
                }
                _ => continue,
            };
            let labels = labels.iter().map(|label| function.blocks[label.0 as usize].pc.0);
            calls.entry(pc.0).or_default().extend(labels);
        }
    }
    for pc in returns {
        calls.remove(&pc);
    }
    calls
}

/// The addresses that a run executes, and the targets of its indirect calls and jumps other than labels.
fn trace(
    elf: &[u8],
    args: &[Bytes],
    options: CompileOptions,
    program: &Program,
) -> Result<(HashSet<u64>, HashSet<u64>)> {
    let calls = calls(program);
    type Core = DefaultCoreMachine<u64, WXorXMemory<SparseMemory<u64>>>;
    let core = <Core as SupportMachine>::new(options.isa.0, options.vm_version, u64::MAX);
    let builder = DefaultMachineBuilder::new(core).syscall(Box::new(Quiet));
    let mut machine = builder.build();
    let args = args.iter().cloned().map(Ok).collect::<Vec<_>>();
    machine
        .load_program(&Bytes::copy_from_slice(elf), args.into_iter())
        .map_err(|error| anyhow::anyhow!("{error:?}"))
        .context("loading")?;
    let mut decoder = build_decoder::<u64>(options.isa.0, options.vm_version);
    let (mut executed, mut called) = (HashSet::new(), HashSet::new());
    machine.set_running(true);
    for _ in 0..STEPS_MAX {
        let pc = *machine.pc();
        executed.insert(pc);
        // The outcome of the run does not matter.
        if machine.step(&mut decoder).is_err() || !machine.running() {
            break;
        }
        let target = *machine.pc();
        if calls.get(&pc).is_some_and(|labels| !labels.contains(&target)) {
            called.insert(target);
        }
    }
    Ok((executed, called))
}

/// Removes the section headers of `elf`.
#[must_use]
pub fn without_sections(elf: &[u8]) -> Vec<u8> {
    // ELF-64: e_shoff at 40, eight bytes; e_shnum and e_shstrndx at 60.
    let mut bytes = elf.to_vec();
    for at in (40..48).chain(60..64) {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = 0;
        }
    }
    bytes
}
