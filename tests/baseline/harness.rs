//! Handmade IR modules, compiled by the baseline and executed.

use antares_abi::{BailoutReason, CompileOptions, Isa};
use antares_ir::{Block, Charge, Function, Module, Op, SpAfter, Terminator, Value};
use antares_program::{BlockId, FunctionId, GuestAddr, Reg, RegSet};
use antares_tests::{
    elf::{self, Segment},
    native,
};
use antares_vm::{Limits, Machine, Outcome, RunScript, Tier};
use bytes::Bytes;

/// Nominal address of the code.
pub(crate) const CODE: u64 = 0x1_0000;
/// Start of writable memory.
pub(crate) const DATA: u64 = 0x1_1000;
/// End of guest memory.
pub(crate) const END: u64 = 4 << 20;

pub(crate) const OPTIONS: CompileOptions = CompileOptions { vm_version: 2, isa: Isa(3) };

/// The two operands of an operation.
pub(crate) type Operands = (Value, Value);

/// Operations and writes of a block under construction.
#[derive(Default)]
pub(crate) struct Build {
    pub(crate) ops: Vec<Op>,
    pub(crate) writes: Vec<(Reg, Value)>,
}

impl Build {
    pub(crate) fn op(&mut self, op: Op) -> Value {
        self.ops.push(op);
        Value(u32::try_from(self.ops.len() - 1).unwrap())
    }

    pub(crate) fn number(&mut self, number: u64) -> Value {
        self.op(Op::Const(number.cast_signed()))
    }

    /// The return address: what the block writes to its register, or what is in it.
    pub(crate) fn link(&mut self) -> Value {
        let written = self.writes.iter().find(|(register, _)| *register == Reg::RA).map(|(_, value)| *value);
        written.unwrap_or_else(|| self.op(Op::Read(Reg::RA)))
    }

    pub(crate) fn write(&mut self, register: u8, value: Value) {
        self.writes.push((Reg(register), value));
    }

    /// Writes numbers to registers.
    pub(crate) fn set(numbers: &[(u8, u64)]) -> Self {
        let mut build = Self::default();
        for (register, number) in numbers {
            let value = build.number(*number);
            build.write(*register, value);
        }
        build
    }

    pub(crate) fn end(self, terminator: Terminator) -> Block {
        let Self { ops, writes } = self;
        let (pc, charge, is_metered, is_bounded) = (GuestAddr(CODE), Charge::Entered, false, false);
        Block { pc, cycles: 1, charge, is_metered, is_bounded, ops, writes, terminator }
    }
}

/// A function that any code may call, at `CODE` plus 16 bytes for each earlier function.
pub(crate) fn function(index: u32, blocks: Vec<Block>) -> Function {
    Function {
        id: FunctionId(index),
        entry: GuestAddr(CODE + 16 * u64::from(index)),
        link: Reg::RA,
        is_exposed: true,
        is_resumable: false,
        params: RegSet::ALL,
        results: RegSet::ALL,
        frame_low: None,
        sp_after: SpAfter::Same,
        returns: antares_ir::Returns::Once,
        blocks,
        loops: Vec::new(),
    }
}

/// Consecutive blocks, and the script's end: exit with a number.
pub(crate) fn sequence(builds: Vec<Build>, code: u64) -> Vec<Block> {
    let blocks = (1..).zip(builds).map(|(next, build)| build.end(Terminator::Jump(BlockId(next))));
    blocks.chain([exit(code)]).collect()
}

pub(crate) fn exit(code: u64) -> Block {
    Build::set(&[(10, code), (17, 93)]).end(Terminator::Exit { pc: GuestAddr(CODE) })
}

pub(crate) fn module(functions: Vec<Function>) -> Module {
    Module {
        options: OPTIONS,
        code_start: CODE,
        code_end: DATA,
        writable: (DATA, END),
        is_open: false,
        keeps_stores: true,
        indirect_params: RegSet::ALL,
        indirect_changes: RegSet::ALL,
        functions,
    }
}

/// Result of a module: outcome and final memory.
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) restarted: Option<BailoutReason>,
    pub(crate) cycles: u64,
    pub(crate) memory: Vec<u8>,
}

impl Ran {
    pub(crate) fn double(&self, address: u64) -> u64 {
        let at = usize::try_from(address).unwrap();
        u64::from_le_bytes(self.memory[at..at + 8].try_into().unwrap())
    }

    /// The exit code, if it exited in native code.
    pub(crate) fn exited(&self) -> Option<i8> {
        match (&self.outcome, self.restarted) {
            (Outcome::Exit(code), None) => Some(*code),
            _ => None,
        }
    }
}

/// An ELF with other code: the interpreter exits at once with code 99.
fn elf() -> Bytes {
    let bytes = elf::code(&[0x0630_0513, 0x05d0_0893, 0x0000_0073]);
    let segment = Segment { address: CODE, flags: 5, bytes, memory_bytes: DATA - CODE };
    elf::file(CODE, vec![segment]).into()
}

/// Runs a module from its first function.
pub(crate) fn run(machine: &mut Machine, module: &Module, cycles_max: u64) -> Ran {
    let library = native::load(&antares_baseline::compile(module, None).unwrap()).unwrap();
    let elf = elf();
    let script = RunScript { elf: &elf, args: &[], vm_version: OPTIONS.vm_version, isa: OPTIONS.isa.0 };
    let limits = Limits { cycles_max, debug_bytes_max: 0 };
    let report = machine.run(&script, &limits, Tier::Native, Some(&library)).unwrap();
    let memory = machine.memory().to_vec();
    Ran { outcome: report.outcome, restarted: report.restarted, cycles: report.cycles, memory }
}
