//! Where an instruction goes: directly to the beginning of another one, or by an address that was computed in a known way.

use std::mem::offset_of;

use antares_abi::{HOST_TABLE_OFFSET, HostTable};
use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::{
    Fault,
    image::Image,
    walk::{Lines, goes_on},
};

/// Instructions between the load of a table's entry and the jump that it is for, at most: generators move others in between.
const WINDOW: usize = 48;

/// The host's functions that native code calls or jumps to, by their distance from base.
const HOST_FUNCTIONS: [usize; 4] = [
    HOST_TABLE_OFFSET + offset_of!(HostTable, leave),
    HOST_TABLE_OFFSET + offset_of!(HostTable, ecall),
    HOST_TABLE_OFFSET + offset_of!(HostTable, meter),
    HOST_TABLE_OFFSET + offset_of!(HostTable, resolve),
];

/// Checks where the instruction of this index goes.
pub(crate) fn check(index: usize, lines: &Lines, image: &Image<'_>) -> Result<(), Fault> {
    let instruction = &lines.instructions[index];
    match instruction.flow_control() {
        FlowControl::Next | FlowControl::Interrupt | FlowControl::Exception => Ok(()),
        FlowControl::Return if instruction.code() == Code::Retnq => Ok(()),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::Call
            if instruction.op0_kind() == OpKind::NearBranch64 =>
        {
            let address = instruction.near_branch64();
            if lines.begins(address) { Ok(()) } else { Err(Fault::Target { address }) }
        }
        FlowControl::IndirectBranch | FlowControl::IndirectCall
            if matches!(instruction.code(), Code::Jmp_rm64 | Code::Call_rm64) =>
        {
            let is_known = match instruction.op0_kind() {
                OpKind::Memory => is_host_function(instruction),
                _ => is_computed(index, lines, image),
            };
            if is_known { Ok(()) } else { Err(Fault::Computed) }
        }
        _ => Err(Fault::Instruction(instruction.mnemonic())),
    }
}

/// Whether it goes through a field of the state that the host has filled in.
fn is_host_function(instruction: &Instruction) -> bool {
    let place = usize::try_from(instruction.memory_displacement64()).unwrap_or(usize::MAX);
    instruction.memory_base().is_gpr64()
        && instruction.memory_index() == Register::None
        && HOST_FUNCTIONS.contains(&place)
}

/// Whether it loads what [`is_host_function`] goes through: code that is selected one instruction at a time does so before the call.
pub(crate) fn loads_host_function(instruction: &Instruction) -> bool {
    instruction.code() == Code::Mov_r64_rm64
        && instruction.op1_kind() == OpKind::Memory
        && is_host_function(instruction)
}

/// Whether the register it goes by was computed as an entry of a table, is what the host has answered, or is the function that
/// an entry thunk names.
fn is_computed(index: usize, lines: &Lines, image: &Image<'_>) -> bool {
    let target = lines.instructions[index].op0_register();
    let mut before = Before { lines, index };
    match before.writer_of(target) {
        Some(sum) if is_sum(sum, target) => {
            let other = if sum.mnemonic() == Mnemonic::Lea { sum.memory_base() } else { sum.op1_register() };
            let (mut of_target, mut of_other) = (before, before);
            let first = of_target.writer_of(target);
            let is_table =
                |lea: &Instruction| lea.code() == Code::Lea_r64_m && lea.is_ip_rel_memory_operand();
            let is_of_it = |entry: &Instruction| {
                let base = entry.memory_base();
                is_entry(entry, target)
                    && (base == other
                        || of_target.is_copy_of(other, base)
                        || of_target.is_copy_of(base, other)
                        || before.names_one_table(other, of_target, base))
            };
            before.is_folded(sum, target)
                || first.is_some_and(is_of_it)
                || first.is_some_and(is_table)
                    && of_other
                        .writer_of(other)
                        .is_some_and(|entry| is_entry(entry, other) || of_other.widens_entry(entry))
        }
        Some(load) if loads_host_function(load) => true,
        Some(copy) if is_copy(copy) => before.comes_from_resolve(),
        Some(call) => is_resolve(call),
        None => is_entered(index, target, lines, image),
    }
}

/// `target += table`, or the same with a number.
fn is_sum(instruction: &Instruction, target: Register) -> bool {
    match instruction.code() {
        Code::Add_r64_rm64 | Code::Add_rm64_r64 => {
            instruction.op0_register() == target && instruction.op1_kind() == OpKind::Register
        }
        Code::Lea_r64_m => instruction.memory_index() == target && instruction.memory_index_scale() == 1,
        _ => false,
    }
}

/// `target = table[i]`, a distance of 32 bits with its sign.
fn is_entry(instruction: &Instruction, target: Register) -> bool {
    instruction.code() == Code::Movsxd_r64_rm32
        && instruction.op0_register() == target
        && matches!(instruction.memory_index_scale(), 2 | 4)
        && instruction.memory_displacement64() == 0
}

fn is_copy(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64)
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op1_register() == Register::RAX
}

/// A call of the host for the thunk of another library.
fn is_resolve(instruction: &Instruction) -> bool {
    instruction.code() == Code::Call_rm64
        && instruction.op0_kind() == OpKind::Memory
        && is_of_resolve(instruction)
}

fn is_of_resolve(instruction: &Instruction) -> bool {
    instruction.memory_displacement64() == (HOST_TABLE_OFFSET + offset_of!(HostTable, resolve)) as u64
}

/// A walk back through the instructions before one.
#[derive(Clone, Copy)]
struct Before<'l> {
    lines: &'l Lines,
    index: usize,
}

impl<'l> Before<'l> {
    fn next(&mut self) -> Option<&'l Instruction> {
        self.index = self.index.checked_sub(1)?;
        Some(&self.lines.instructions[self.index])
    }

    /// The last instruction that wrote `register`, or called somebody who may have; in a straight line.
    fn writer_of(&mut self, register: Register) -> Option<&'l Instruction> {
        for _ in 0..WINDOW {
            let instruction = self.next()?;
            let is_call = matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
            if is_call || writes(instruction, register) {
                return Some(instruction);
            }
            if !goes_on(instruction) {
                return None;
            }
        }
        None
    }

    /// Whether `copy` was made of `register`, which was not written since.
    fn is_copy_of(self, copy: Register, register: Register) -> bool {
        let (mut of_copy, mut of_register) = (self, self);
        let is_copy = of_copy.writer_of(copy).is_some_and(|instruction| {
            matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64)
                && instruction.op0_kind() == OpKind::Register
                && instruction.op1_kind() == OpKind::Register
                && (instruction.op0_register(), instruction.op1_register()) == (copy, register)
        });
        of_register.writer_of(register);
        is_copy && of_register.index < of_copy.index
    }

    /// The table whose address `register` was given in this line.
    fn table_of(mut self, register: Register) -> Option<u64> {
        let lea = self.writer_of(register)?;
        (lea.code() == Code::Lea_r64_m && lea.is_ip_rel_memory_operand()).then(|| lea.memory_displacement64())
    }

    /// Whether `register` was given the address of the table that `base` had there: one that was needed twice is made again
    /// where no register is left to keep it.
    fn names_one_table(self, register: Register, there: Self, base: Register) -> bool {
        self.table_of(register).is_some_and(|table| there.table_of(base) == Some(table))
    }

    /// Whether `sum` is of an entry that was known when the code was made: `target = function - table`, in 32 bits, `target += table`.
    /// The table's register must hold its address from before the difference on: the upper half of the sum is its own.
    fn is_folded(mut self, sum: &Instruction, target: Register) -> bool {
        let table = sum.op1_register();
        let mut of_table = self;
        let names_table = of_table
            .writer_of(table)
            .is_some_and(|lea| lea.code() == Code::Lea_r64_m && lea.is_ip_rel_memory_operand());
        let names = |code: &Instruction, register: Register| {
            code.op0_register().full_register() == register && code.op1_kind() == OpKind::Register
        };
        let widens = self.writer_of(target).is_some_and(|widening| {
            widening.code() == Code::Movsxd_r64_rm32
                && names(widening, target)
                && widening.op1_register().full_register() == target
        });
        let subtracts = self.writer_of(target).is_some_and(|difference| {
            matches!(difference.code(), Code::Sub_r32_rm32 | Code::Sub_rm32_r32)
                && names(difference, target)
                && difference.op1_register().full_register() == table
        });
        let is_unchanged = of_table.index < self.index;
        let is_function = self.writer_of(target).is_some_and(|lea| {
            lea.code() == Code::Lea_r64_m
                && lea.is_ip_rel_memory_operand()
                && self.lines.begins(lea.memory_displacement64())
        });
        sum.op0_register() == target && names_table && widens && subtracts && is_unchanged && is_function
    }

    /// Whether `widening` is of a table's entry that was put on the stack meanwhile, as code does whose registers are not allocated
    /// beyond a block.
    fn widens_entry(mut self, widening: &Instruction) -> bool {
        let is_reload = |load: &Instruction| {
            load.code() == Code::Mov_r32_rm32
                && load.memory_base() == Register::RSP
                && load.memory_index() == Register::None
        };
        let is_of_registers =
            widening.code() == Code::Movsxd_r64_rm32 && widening.op1_kind() == OpKind::Register;
        let source = widening.op1_register().full_register();
        let Some(reload) =
            is_of_registers.then(|| self.writer_of(source)).flatten().filter(|load| is_reload(load))
        else {
            return false;
        };
        let Some(spilled) = self.spilled_to(reload.memory_displacement64()) else { return false };
        self.writer_of(spilled).is_some_and(|entry| {
            entry.code() == Code::Mov_r32_rm32
                && entry.memory_index_scale() == 4
                && entry.memory_displacement64() == 0
        })
    }

    /// The register whose lower half was put at `slot` of the frame; in a straight line.
    fn spilled_to(&mut self, slot: u64) -> Option<Register> {
        for _ in 0..WINDOW {
            let instruction = self.next()?;
            let is_store =
                instruction.op0_kind() == OpKind::Memory && instruction.memory_base() == Register::RSP;
            if is_store && instruction.memory_displacement64() == slot {
                let is_spill =
                    instruction.code() == Code::Mov_rm32_r32 && instruction.memory_index() == Register::None;
                return is_spill.then(|| instruction.op1_register().full_register());
            }
            let is_call = matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
            let moves = matches!(instruction.mnemonic(), Mnemonic::Push | Mnemonic::Pop)
                || writes(instruction, Register::RSP);
            if is_call || moves || !goes_on(instruction) {
                return None;
            }
        }
        None
    }

    /// Whether `rax` is what the host has answered.
    fn comes_from_resolve(&mut self) -> bool {
        let Some(call) = self.writer_of(Register::RAX) else { return false };
        let is_by_register = call.code() == Code::Call_rm64 && call.op0_kind() == OpKind::Register;
        let load = is_by_register.then(|| self.writer_of(call.op0_register().full_register())).flatten();
        is_resolve(call) || load.is_some_and(|load| loads_host_function(load) && is_of_resolve(load))
    }
}

/// Whether an instruction may write `register`: what reads it only is known by name.
fn writes(instruction: &Instruction, register: Register) -> bool {
    let reads = matches!(
        instruction.mnemonic(),
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt | Mnemonic::Push | Mnemonic::Nop
    );
    let is_at = |operand: u32| {
        instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand).full_register() == register
    };
    let implied = matches!(
        instruction.mnemonic(),
        Mnemonic::Mul
            | Mnemonic::Div
            | Mnemonic::Idiv
            | Mnemonic::Imul
            | Mnemonic::Cqo
            | Mnemonic::Cdq
            | Mnemonic::Cdqe
    ) && matches!(register, Register::RAX | Register::RDX);
    let second = matches!(instruction.mnemonic(), Mnemonic::Xchg | Mnemonic::Mulx) && is_at(1);
    !reads && (implied || second || (instruction.op_count() > 0 && is_at(0)))
}

/// Whether a call by `target` is the one of the baseline's way in: in a line from a place that is only jumped to, each time right
/// behind `lea target, [rip + function]`.
fn is_entered(index: usize, target: Register, lines: &Lines, image: &Image<'_>) -> bool {
    let mut start = index;
    while start > 0 && index - start < WINDOW && goes_on(&lines.instructions[start - 1]) {
        start -= 1;
    }
    let line = &lines.instructions[start..=index];
    let places = line[0].ip()..=line[line.len() - 1].ip();
    let is_new = start == 0 || !goes_on(&lines.instructions[start - 1]);
    let names_function = |instruction: &Instruction| {
        instruction.code() == Code::Lea_r64_m
            && instruction.op0_register() == target
            && instruction.is_ip_rel_memory_operand()
            && lines.begins(instruction.memory_displacement64())
    };
    let mut branches = lines.instructions.iter().enumerate().filter(|(_, other)| {
        other.op0_kind() == OpKind::NearBranch64 && places.contains(&other.near_branch64())
    });
    let is_thunk_s = |(at, jump): (usize, &Instruction)| {
        jump.mnemonic() == Mnemonic::Jmp
            && jump.near_branch64() == line[0].ip()
            && at.checked_sub(1).is_some_and(|before| names_function(&lines.instructions[before]))
    };
    let Ok(thunks) = image.thunks() else { return false };
    let is_not_an_entry = !thunks.iter().any(|thunk| places.contains(thunk));
    let is_taken = match branches.next() {
        Some(first) => is_thunk_s(first) && branches.all(is_thunk_s),
        // Code without functions has it too.
        None => thunks.is_empty(),
    };
    is_new && is_not_an_entry && is_taken
}
