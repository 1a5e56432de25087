//! The LLVM engine of ckb-vm-contrib, driven as in its example `ckb-vm-llvm-aoter`. It compiles for VM
//! version 1 with B and fused instructions. Its cycles differ from ckb-vm's: here each instruction counts
//! one, which takes the same time.

use std::{process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use ckb_vm::{Bytes, Instruction, machine::DefaultMachineBuilder};
use ckb_vm_contrib::llvm_aot::{DlSymbols, LlvmAotCoreMachine, LlvmAotMachine, LlvmCompilingMachine};
use tempfile::TempDir;

use crate::{Peer, timed};

/// Prefix of all names in the shared object.
const PREFIX: &str = "aot";
/// Bytes of guest memory, as in ckb-vm.
const MEMORY_BYTES: usize = 4 << 20;

pub(crate) struct Program {
    elf: Bytes,
    symbols: DlSymbols<'static>,
    _folder: TempDir,
}

impl Program {
    pub(crate) fn new(elf: &[u8]) -> Result<Self> {
        let elf = Bytes::from(without_empty_segments(elf.to_vec()));
        LlvmCompilingMachine::initialize().map_err(vm_error)?;
        let machine = LlvmCompilingMachine::load("peer", &elf, PREFIX, &cycles, false).map_err(vm_error)?;
        let object = machine.aot(true).map_err(vm_error).context("compiling")?;
        let folder = TempDir::new()?;
        let (object_path, library) = (folder.path().join("peer.o"), folder.path().join("peer.so"));
        std::fs::write(&object_path, &object)?;
        let linked = Command::new("ld").arg("-shared").arg("-o").args([&library, &object_path]).status()?;
        ensure!(linked.success(), "ld: {linked}");
        let library = library.to_str().context("a path in UTF-8")?;
        let symbols = DlSymbols::new(library, PREFIX).map_err(vm_error).context("loading")?;
        Ok(Self { elf, symbols, _folder: folder })
    }
}

impl Peer for Program {
    fn run(&mut self, repetitions: u32) -> Result<(i32, Duration)> {
        let core = LlvmAotCoreMachine::new(MEMORY_BYTES).map_err(vm_error)?;
        let machine = DefaultMachineBuilder::new(core).instruction_cycle_func(Box::new(cycles)).build();
        let mut machine =
            LlvmAotMachine::new_with_machine(machine, &self.symbols.aot_symbols).map_err(vm_error)?;
        machine.set_max_cycles(u64::MAX);
        let arguments = [Bytes::from(repetitions.to_string())];
        machine.load_program(&self.elf, &arguments).map_err(vm_error)?;
        let (code, time) = timed(|| machine.run(false));
        Ok((i32::from(code.map_err(vm_error)?), time))
    }
}

/// Replaces the type of empty segments, which linkers may leave, by `PT_NULL`: the engine's loader fails on
/// them.
fn without_empty_segments(mut elf: Vec<u8>) -> Vec<u8> {
    let number = |elf: &[u8], at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(elf.get(at..at + bytes).unwrap_or(&[0; 8][..bytes]));
        u64::from_le_bytes(number) as usize
    };
    // e_phoff, e_phentsize, e_phnum; then p_memsz of each.
    let (table, size, count) = (number(&elf, 32, 8), number(&elf, 54, 2), number(&elf, 56, 2));
    for entry in (0..count).map(|index| table + index * size) {
        if number(&elf, entry + 40, 8) == 0 && entry + 4 <= elf.len() {
            elf[entry..entry + 4].fill(0);
        }
    }
    elf
}

fn cycles(_: Instruction) -> u64 {
    1
}

fn vm_error(error: ckb_vm::Error) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}
