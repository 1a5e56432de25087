//! Tracks the content of a register before a branch, within the straight-line code that leads there, as far as
//! it determines branch targets.

use std::mem::offset_of;

use antares_abi::{HOST_TABLE_OFFSET, HostTable, THUNK_BYTES};
use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use crate::walk::Lines;

/// Maximum visits of instructions for one branch.
const VISITS_MAX: usize = 2048;

/// The host functions that native code calls or jumps to, as offsets from base.
const HOST_FUNCTIONS: [usize; 6] = [
    HOST_TABLE_OFFSET + offset_of!(HostTable, ecall),
    HOST_TABLE_OFFSET + offset_of!(HostTable, meter),
    RESOLVE,
    HOST_TABLE_OFFSET + offset_of!(HostTable, mark),
    HOST_TABLE_OFFSET + offset_of!(HostTable, unmark),
    HOST_TABLE_OFFSET + offset_of!(HostTable, far_jump),
];

/// The host function that returns the thunk of another library.
const RESOLVE: usize = HOST_TABLE_OFFSET + offset_of!(HostTable, resolve);

/// Content of a register. Equal values hold the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// The unknown result of `writer`, or of code before the sequence.
    Opaque { register: Register, writer: Option<usize> },
    /// An address in the library.
    Address(u64),
    /// An entry of the table at `table`: a 32-bit distance from there. `is_wide` says whether it is
    /// sign-extended.
    Entry { table: Box<Value>, is_wide: bool },
    /// An entry whose value the compiler knew.
    Distance { code: u64, table: u64, is_wide: bool },
    /// A code address: a table's address plus one of its entries.
    Place,
    /// A host function, by its offset from base.
    Host(usize),
    /// The thunk of another library.
    Thunk,
}

impl Value {
    /// The sign-extended value, if this is a 32-bit distance.
    fn widened(self) -> Option<Self> {
        match self {
            Self::Entry { table, is_wide: false } => Some(Self::Entry { table, is_wide: true }),
            Self::Distance { code, table, is_wide: false } => {
                Some(Self::Distance { code, table, is_wide: true })
            }
            _ => None,
        }
    }

    /// Whether this is a sign-extended entry of the table `base`.
    fn is_entry_of(&self, base: &Self) -> bool {
        match (self, base) {
            (Self::Entry { table, is_wide: true }, base) => **table == *base,
            (Self::Distance { table, is_wide: true, .. }, Self::Address(address)) => table == address,
            _ => false,
        }
    }

    /// Whether this is an entry of an opaque table: one that was itself looked up, or whose address is from
    /// before the sequence.
    fn is_entry_of_a_part(&self) -> bool {
        matches!(self, Self::Entry { table, is_wide: true } if matches!(**table, Self::Opaque { .. }))
    }
}

/// The offset of the host function whose address `instruction` reads, if any.
pub(crate) fn host_function(instruction: &Instruction) -> Option<usize> {
    let place = usize::try_from(instruction.memory_displacement64()).ok()?;
    let is_in_table = instruction.memory_base().is_gpr64() && instruction.memory_index() == Register::None;
    (is_in_table && HOST_FUNCTIONS.contains(&place)).then_some(place)
}

/// Whether `instruction` loads a [`host_function`]. Instruction selection without fusion does so before the
/// call.
pub(crate) fn loads_host_function(instruction: &Instruction) -> bool {
    instruction.code() == Code::Mov_r64_rm64
        && instruction.op1_kind() == OpKind::Memory
        && host_function(instruction).is_some()
}

/// A reader of the straight-line sequence before a branch.
pub(crate) struct Reader<'l> {
    lines: &'l Lines,
    /// Index of the sequence's first instruction.
    first: usize,
    visits: usize,
    factory: InstructionInfoFactory,
}

impl<'l> Reader<'l> {
    /// Creates a reader for the sequence before the instruction at `index`.
    pub(crate) fn before(lines: &'l Lines, index: usize) -> Self {
        Self {
            lines,
            first: lines.line_start(index),
            visits: VISITS_MAX,
            factory: InstructionInfoFactory::new(),
        }
    }

    /// Content of `register` before the instruction at `before`. `None` after too many visits.
    pub(crate) fn value(&mut self, register: Register, before: usize) -> Option<Value> {
        let register = register.full_register();
        let Some(writer) = self.writer(register, before)? else {
            return Some(Value::Opaque { register, writer: None });
        };
        let known = self.given(register, writer);
        (self.visits > 0).then(|| known.unwrap_or(Value::Opaque { register, writer: Some(writer) }))
    }

    /// The last instruction before `before` that writes `register`, or a call, which may have.
    fn writer(&mut self, register: Register, before: usize) -> Option<Option<usize>> {
        for index in (self.first..before).rev() {
            self.visits = self.visits.checked_sub(1)?;
            let instruction = &self.lines.instructions[index];
            if is_call(instruction) || self.writes(instruction, register) {
                return Some(Some(index));
            }
        }
        Some(None)
    }

    fn writes(&mut self, instruction: &Instruction, register: Register) -> bool {
        self.factory.info(instruction).used_registers().iter().any(|used| {
            used.register().full_register() == register
                && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
        })
    }

    /// The value that the instruction at `writer` puts into `register`, if the reader models it.
    fn given(&mut self, register: Register, writer: usize) -> Option<Value> {
        let instruction = self.lines.instructions[writer];
        if is_call(&instruction) {
            return self.answer(register, &instruction, writer);
        }
        let is_of_registers = instruction.op1_kind() == OpKind::Register;
        match instruction.code() {
            Code::Mov_r64_rm64 | Code::Mov_rm64_r64 if is_of_registers => {
                self.value(instruction.op1_register(), writer)
            }
            Code::Mov_r64_rm64 => match host_function(&instruction) {
                Some(place) => Some(Value::Host(place)),
                None => self.reloaded(&instruction, writer, Code::Mov_rm64_r64),
            },
            Code::Mov_r32_rm32 if !is_of_registers => self
                .reloaded(&instruction, writer, Code::Mov_rm32_r32)
                .or_else(|| self.entry(&instruction, writer, false)),
            Code::Movsxd_r64_rm32 if is_of_registers => {
                self.value(instruction.op1_register(), writer)?.widened()
            }
            Code::Movsxd_r64_rm32 => match self.reloaded(&instruction, writer, Code::Mov_rm32_r32) {
                Some(half) => half.widened(),
                None => self.entry(&instruction, writer, true),
            },
            Code::Lea_r64_m if instruction.is_ip_rel_memory_operand() => {
                Some(Value::Address(instruction.memory_displacement64()))
            }
            // The displacement may skip the thunk before a function.
            Code::Lea_r64_m
                if instruction.memory_index() != Register::None
                    && instruction.memory_index_scale() == 1
                    && [0, THUNK_BYTES.into()].contains(&instruction.memory_displacement64()) =>
            {
                self.sum([instruction.memory_index(), instruction.memory_base()], writer)
            }
            Code::Add_r64_rm64 | Code::Add_rm64_r64 if is_of_registers => {
                self.sum([instruction.op0_register(), instruction.op1_register()], writer)
            }
            Code::Sub_r32_rm32 | Code::Sub_rm32_r32 if is_of_registers => {
                let operands = [instruction.op0_register(), instruction.op1_register()];
                let [Some(Value::Address(code)), Some(Value::Address(table))] =
                    operands.map(|operand| self.value(operand, writer))
                else {
                    return None;
                };
                self.lines.begins(code).then_some(Value::Distance { code, table, is_wide: false })
            }
            _ => None,
        }
    }

    /// The result of a call in `register`, if known.
    fn answer(&mut self, register: Register, call: &Instruction, index: usize) -> Option<Value> {
        let called = match call.op0_kind() {
            OpKind::Memory => host_function(call).map(Value::Host),
            OpKind::Register => self.value(call.op0_register(), index),
            _ => None,
        };
        (register == Register::RAX && called == Some(Value::Host(RESOLVE))).then_some(Value::Thunk)
    }

    /// The table entry that `load` reads, if it reads one.
    fn entry(&mut self, load: &Instruction, index: usize, is_wide: bool) -> Option<Value> {
        let is_scaled = load.memory_index_scale() == 4 || is_wide && load.memory_index_scale() == 2;
        // A constant part of the index ends up in the displacement.
        let is_whole = load.memory_displacement64().is_multiple_of(4);
        let is_entry = is_scaled && is_whole && load.memory_index() != Register::None;
        let table = if is_entry { self.value(load.memory_base(), index)? } else { return None };
        Some(Value::Entry { table: Box::new(table), is_wide })
    }

    /// The code address that is the sum of a table and its entry. If `target` holds the table and the entry's
    /// own table is opaque, the entry is assumed to belong to a part of the same table.
    fn sum(&mut self, [target, other]: [Register; 2], index: usize) -> Option<Value> {
        let (target, other) = (self.value(target, index)?, self.value(other, index)?);
        let is_of_a_part = matches!(target, Value::Address(_)) && other.is_entry_of_a_part();
        let is_place = target.is_entry_of(&other)
            || other.is_entry_of(&target)
            || is_of_a_part
            || self.is_entry_of_earlier(&target, &other)
            || self.is_entry_of_earlier(&other, &target);
        is_place.then_some(Value::Place)
    }

    /// Whether `entry` belongs to a table whose address was taken again for its load, while `base` is a
    /// register from before the sequence. Some instruction puts this table's address into that register.
    fn is_entry_of_earlier(&self, entry: &Value, base: &Value) -> bool {
        let Value::Entry { table, is_wide: true } = entry else { return false };
        match (&**table, base) {
            (Value::Address(table), Value::Opaque { register, writer: None }) => {
                self.lines.names(*register, *table)
            }
            _ => false,
        }
    }

    /// The value that a `spill` stored to the stack slot that `load` reads.
    fn reloaded(&mut self, load: &Instruction, before: usize, spill: Code) -> Option<Value> {
        if load.memory_base() != Register::RSP || load.memory_index() != Register::None {
            return None;
        }
        let slot = load.memory_displacement64();
        for index in (self.first..before).rev() {
            self.visits = self.visits.checked_sub(1)?;
            let instruction = self.lines.instructions[index];
            let is_store =
                instruction.op0_kind() == OpKind::Memory && instruction.memory_base() == Register::RSP;
            if is_store && instruction.memory_displacement64() == slot {
                let is_spill = instruction.code() == spill && instruction.memory_index() == Register::None;
                return is_spill.then(|| self.value(instruction.op1_register(), index)).flatten();
            }
            let moves = matches!(instruction.mnemonic(), Mnemonic::Push | Mnemonic::Pop)
                || self.writes(&instruction, Register::RSP);
            if is_call(&instruction) || moves {
                return None;
            }
        }
        None
    }
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{image, walk::disassemble};

    /// A `ret`, which ends the previous sequence, then `code`, then `ret`.
    fn lines(code: &[&[u8]]) -> Lines {
        let bytes = [&[0xc3], &*code.concat(), &[0xc3]].concat();
        disassemble(&image::Code { bytes: &bytes, start: 0x1000 }).unwrap()
    }

    /// Content of `rdx` after `code`; none if it takes too long to find.
    fn found(code: &[&[u8]]) -> Option<Value> {
        let lines = lines(code);
        let last = lines.instructions.len() - 1;
        Reader::before(&lines, last).value(Register::RDX, last)
    }

    fn rdx(code: &[&[u8]]) -> Value {
        found(code).unwrap()
    }

    fn is_opaque(code: &[&[u8]]) -> bool {
        matches!(rdx(code), Value::Opaque { writer: Some(_), .. })
    }

    /// `lea rdx, [rip + 0]`, then `lea rbx` of the same address and of another one.
    const TABLE: &[u8] = &[0x48, 0x8d, 0x15, 0, 0, 0, 0];
    const TABLE_AGAIN: &[u8] = &[0x48, 0x8d, 0x1d, 0xf9, 0xff, 0xff, 0xff];
    const OTHER_TABLE: &[u8] = &[0x48, 0x8d, 0x1d, 0, 0, 0, 0];
    /// `movsxd rsi, [rdx + 2 * rsi + 192]`, then with base `rbx`.
    const ENTRY: &[u8] = &[0x48, 0x63, 0xb4, 0x72, 0xc0, 0, 0, 0];
    const ENTRY_OF_RBX: &[u8] = &[0x48, 0x63, 0xb4, 0x73, 0xc0, 0, 0, 0];
    /// `add rdx, rsi`.
    const SUM: &[u8] = &[0x48, 0x01, 0xf2];

    #[test]
    fn a_place_is_an_entry_and_its_table() {
        assert_eq!(rdx(&[TABLE, ENTRY, SUM]), Value::Place);
        assert_eq!(rdx(&[TABLE, TABLE_AGAIN, ENTRY_OF_RBX, SUM]), Value::Place);
        // The entry's table is from before the sequence, or was looked up: inc rbx.
        assert_eq!(rdx(&[TABLE, ENTRY_OF_RBX, SUM]), Value::Place);
        assert_eq!(rdx(&[TABLE, &[0x48, 0xff, 0xc3], ENTRY_OF_RBX, SUM]), Value::Place);
        // mov [rsp + 8], rsi; xor esi, esi; mov rsi, [rsp + 8].
        let spilled: [&[u8]; 3] = [&[0x48, 0x89, 0x74, 0x24, 8], &[0x31, 0xf6], &[0x48, 0x8b, 0x74, 0x24, 8]];
        assert_eq!(rdx(&[TABLE, ENTRY, spilled[0], spilled[1], spilled[2], SUM]), Value::Place);
    }

    /// `lea rbx, [rip + 8]`; `ret`, which ends a sequence; `movsxd rdx, [rdx + 4 * rsi]`; `add rdx, rbx`.
    const TABLE_BEFORE: [&[u8]; 2] = [&[0x48, 0x8d, 0x1d, 8, 0, 0, 0], &[0xc3]];
    const ENTRY_INTO_RDX: &[u8] = &[0x48, 0x63, 0x14, 0xb2];
    const SUM_WITH_RBX: &[u8] = &[0x48, 0x01, 0xda];

    #[test]
    fn a_table_may_be_named_again_for_its_entry() {
        let [named, end] = TABLE_BEFORE;
        assert_eq!(rdx(&[named, end, TABLE, ENTRY_INTO_RDX, SUM_WITH_RBX]), Value::Place);
        // Another table in rbx, none at all, the same table in rcx, and a changed rbx: inc rbx.
        assert!(is_opaque(&[OTHER_TABLE, end, TABLE, ENTRY_INTO_RDX, SUM_WITH_RBX]));
        assert!(is_opaque(&[end, TABLE, ENTRY_INTO_RDX, SUM_WITH_RBX]));
        assert!(is_opaque(&[&[0x48, 0x8d, 0x0d, 8, 0, 0, 0], end, TABLE, ENTRY_INTO_RDX, SUM_WITH_RBX]));
        assert!(is_opaque(&[named, end, &[0x48, 0xff, 0xc3], TABLE, ENTRY_INTO_RDX, SUM_WITH_RBX]));
    }

    #[test]
    fn what_else_is_added_up_is_no_place() {
        assert!(is_opaque(&[TABLE, SUM]));
        assert!(is_opaque(&[TABLE, OTHER_TABLE, ENTRY_OF_RBX, SUM]));
        // mov rsi, [rdx + 2 * rsi]: not a 32-bit distance.
        assert!(is_opaque(&[TABLE, &[0x48, 0x8b, 0x34, 0x72], SUM]));
        // mov esi, [rdx + 4 * rsi]: not sign-extended.
        assert!(is_opaque(&[TABLE, &[0x8b, 0x34, 0xb2], SUM]));
        // inc rsi in between; cmovz rdx, rsi at the end.
        assert!(is_opaque(&[TABLE, ENTRY, &[0x48, 0xff, 0xc6], SUM]));
        assert!(is_opaque(&[TABLE, ENTRY, SUM, &[0x48, 0x0f, 0x44, 0xd6]]));
        // A call in between.
        assert!(is_opaque(&[TABLE, ENTRY, &[0xe8, 0, 0, 0, 0], SUM]));
        // A sum of sums of sums exceeds the visit limit.
        let sums: Vec<&[u8]> = std::iter::repeat_n(&[0x48, 0x01, 0xd2][..], 40).collect();
        assert_eq!(found(&sums), None);
    }
}
