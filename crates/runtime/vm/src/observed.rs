//! Records the targets of computed jumps and calls of an interpreted script.
//!
//! The assembly requests each trace at least once. A trace start that no other trace leads to, by its end or
//! its branches, is the target of a computed jump.

use antares_abi::{GUEST_MEMORY_BYTES, Hints, Seen};
use ckb_vm::{
    CoreMachine, DefaultMachine, Error,
    ckb_vm_definitions::{
        asm::Trace,
        instructions::{
            OP_ADDI, OP_BEQ, OP_BGE, OP_BGEU, OP_BLT, OP_BLTU, OP_BNE, OP_CUSTOM_TRACE_END, OP_FAR_JUMP_ABS,
            OP_FAR_JUMP_REL, OP_JAL, OP_JALR_VERSION0, OP_JALR_VERSION1,
        },
    },
    instructions::{Itype, Stype, Utype, extract_opcode, instruction_length},
    registers::{RA, SP},
};

use crate::{bailout::Bailout, interpreter::Interpreter, memory::Core};

/// The link register of millicode.
const T0: usize = 5;

/// Guest memory of one word of a set, which has a bit for each even address, and of a block of words.
const WORD_BYTES: u64 = 128;
const BLOCK_BYTES: u64 = WORD_BYTES * BLOCK_WORDS as u64;
const BLOCK_WORDS: usize = 64;

/// A set of even guest memory addresses: at most 256 KiB, in blocks that exist once they have an address.
struct AddressSet(Vec<Option<Box<[u64; BLOCK_WORDS]>>>);

impl AddressSet {
    fn new() -> Self {
        Self(vec![None; usize::try_from(GUEST_MEMORY_BYTES / BLOCK_BYTES).unwrap_or(0)])
    }

    /// Block, word and bit of an address.
    fn place(address: u64) -> (usize, usize, u64) {
        let word = usize::try_from(address / WORD_BYTES).unwrap_or(usize::MAX);
        (word / BLOCK_WORDS, word % BLOCK_WORDS, 1 << (address / 2 % 64))
    }

    fn add(&mut self, address: u64) {
        let (block, word, bit) = Self::place(address);
        if let Some(block) = self.0.get_mut(block) {
            block.get_or_insert_with(|| Box::new([0; _]))[word] |= bit;
        }
    }

    fn has(&self, address: u64) -> bool {
        let (block, word, bit) = Self::place(address);
        matches!(self.0.get(block), Some(Some(block)) if block[word] & bit != 0)
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        let blocks = self.0.iter().zip(0_u64..).filter_map(|(block, index)| Some((block.as_ref()?, index)));
        let words = blocks.flat_map(|(block, index)| block.iter().zip(index * BLOCK_WORDS as u64..));
        words.filter(|(word, _)| **word != 0).flat_map(|(word, index)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| index * WORD_BYTES + bit * 2)
        })
    }
}

/// Observed control flow of one program.
pub(crate) struct Observed {
    /// The target of the first bailout.
    bailout: Option<u64>,
    /// Whether a jump went past its table, and its target.
    is_past_table: bool,
    label: Option<u64>,
    /// Trace starts.
    begun: AddressSet,
    /// Addresses that trace ends lead to.
    led_to: AddressSet,
    /// Addresses after unconditional jumps. Most are branch targets or labels of a computed jump.
    after_jumps: AddressSet,
    /// Targets of direct and indirect calls.
    called: AddressSet,
    /// Targets of calls to computed addresses.
    called_by_address: AddressSet,
}

impl Observed {
    pub(crate) fn new() -> Self {
        let new = AddressSet::new;
        Self {
            bailout: None,
            is_past_table: false,
            label: None,
            begun: new(),
            led_to: new(),
            after_jumps: new(),
            called: new(),
            called_by_address: new(),
        }
    }

    /// Records a bailout.
    pub(crate) fn record_bailout(&mut self, bailout: &Bailout) {
        self.is_past_table |= bailout.is_past_table;
        if bailout.is_past_table {
            self.label = self.label.or(bailout.target);
        } else {
            self.bailout = self.bailout.or(bailout.target);
        }
    }

    /// Records that native code does not know the machine's pc. Return addresses of calls and system calls do
    /// not count as targets.
    pub(crate) fn come_to(&mut self, vm: &DefaultMachine<Core>) {
        let pc = *vm.pc();
        if !follows_call(vm, pc) {
            self.bailout = self.bailout.or(Some(pc));
        }
    }

    /// The targets in a program's code that are not `known`. Addresses after jumps are excluded, because
    /// tables list them.
    pub(crate) fn seen(&self, is_code: impl Fn(u64) -> bool, known: impl Fn(u64) -> bool) -> Seen {
        self.seen_but(|address| self.after_jumps.has(address), is_code, known)
    }

    /// Like [`Self::seen`], for code that was loaded at run time. Its tables are unknown, because they were
    /// not loaded with it.
    pub(crate) fn seen_of_loaded(&self, is_code: impl Fn(u64) -> bool, known: impl Fn(u64) -> bool) -> Seen {
        self.seen_but(|_| false, is_code, known)
    }

    fn seen_but(
        &self,
        is_reported: impl Fn(u64) -> bool,
        is_code: impl Fn(u64) -> bool,
        known: impl Fn(u64) -> bool,
    ) -> Seen {
        let is_led_to = |address: u64| self.led_to.has(address) || is_reported(address);
        let is_target = |address: u64| !is_led_to(address) || self.called_by_address.has(address);
        let is_missed = |address: u64| self.begun.has(address) && is_code(address) && !known(address);
        let targets = self.begun.iter().filter(|address| is_target(*address) && is_missed(*address));
        let bailout = self.bailout.filter(|bailout| is_missed(*bailout));
        let label = self.label.filter(|label| self.begun.has(*label) && is_code(*label));
        let is_past_table = self.is_past_table && self.label.is_none_or(&is_code);
        let targets = bailout.into_iter().chain(label).chain(targets);
        let hints = Hints::new(targets.map(|address| (address, self.called.has(address))));
        Seen { left: bailout, hints: if is_past_table { hints.with_lying_tables() } else { hints } }
    }

    /// Records the trace at the machine's pc.
    pub(crate) fn record(&mut self, vm: &DefaultMachine<Core>, trace: &Trace) {
        let pc = *vm.pc();
        self.begun.add(pc);
        if follows_call(vm, pc) {
            // Native code may have made that call.
            self.led_to.add(pc);
        }
        if is_called(vm, pc) && takes_frame(trace) {
            self.called.add(pc);
            self.called_by_address.add(pc);
        }
        self.record_end(trace);
    }

    /// Records the targets of the last instruction of a trace.
    fn record_end(&mut self, trace: &Trace) {
        let mut at = trace.address;
        let mut last = None;
        for instruction in trace.instructions {
            if extract_opcode(instruction) == OP_CUSTOM_TRACE_END {
                break;
            }
            last = Some((at, instruction));
            at = at.wrapping_add(u64::from(instruction_length(instruction)));
        }
        let Some((pc, instruction)) = last else { return };
        let is_jump = match extract_opcode(instruction) {
            OP_JAL => Utype(instruction).rd() == 0,
            OP_JALR_VERSION0 | OP_JALR_VERSION1 => Itype(instruction).rd() == 0,
            _ => false,
        };
        // Any other trace end is followed by the target of an untaken branch, a return address, or the next
        // trace.
        if is_jump {
            self.after_jumps.add(at)
        } else {
            self.led_to.add(at)
        }
        let near = |immediate: i64| pc.wrapping_add_signed(immediate);
        match extract_opcode(instruction) {
            OP_JAL => {
                let jump = Utype(instruction);
                let target = near(i64::from(jump.immediate_s()));
                self.led_to.add(target);
                if jump.rd() != 0 {
                    self.called.add(target);
                }
            }
            OP_BEQ | OP_BNE | OP_BLT | OP_BGE | OP_BLTU | OP_BGEU => {
                self.led_to.add(near(i64::from(Stype(instruction).immediate_s())));
            }
            OP_FAR_JUMP_REL => self.call(near(i64::from(Utype(instruction).immediate_s())) & !1),
            OP_FAR_JUMP_ABS => self.call(i64::from(Utype(instruction).immediate_s()).cast_unsigned() & !1),
            _ => {}
        }
    }

    fn call(&mut self, target: u64) {
        self.led_to.add(target);
        self.called.add(target);
    }
}

/// Whether a call or system call precedes `pc`, so that `pc` is its return address.
fn follows_call(vm: &DefaultMachine<Core>, pc: u64) -> bool {
    let memory = vm.memory().bytes();
    let pc = usize::try_from(pc).unwrap_or(usize::MAX);
    let before = |length: usize| memory.get(pc.checked_sub(length)?..pc);
    let short = before(2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes);
    let long = before(4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    // c.jalr; ecall; jal and jalr with a link register.
    let is_short = short.is_some_and(|word| word & 0xf07f == 0x9002 && word & 0x0f80 != 0);
    let is_link = |word: u32| matches!((word >> 7 & 31) as usize, RA | T0);
    is_short || long.is_some_and(|word| word == 0x73 || matches!(word & 0x7f, 0x6f | 0x67) && is_link(word))
}

/// Whether a trace allocates a stack frame, directly or by millicode: a label within a function never does.
fn takes_frame(trace: &Trace) -> bool {
    let instructions = trace.instructions.into_iter();
    let mut instructions = instructions.take_while(|one| extract_opcode(*one) != OP_CUSTOM_TRACE_END);
    instructions.any(|instruction| {
        let add = Itype(instruction);
        match extract_opcode(instruction) {
            OP_ADDI => (add.rd(), add.rs1()) == (SP, SP) && add.immediate_s() < 0,
            OP_JAL => Utype(instruction).rd() == T0,
            _ => false,
        }
    })
}

/// Whether the machine apparently reached `pc` by a call of a computed address. The instruction before the
/// return address must be such a call, and its register must contain `pc` or be the link register.
fn is_called(vm: &DefaultMachine<Core>, pc: u64) -> bool {
    let registers = vm.registers();
    let memory = vm.memory().bytes();
    let back = usize::try_from(registers[RA]).unwrap_or(usize::MAX);
    let bytes = |length: usize| {
        let start = back.checked_sub(length)?;
        memory.get(start..back)
    };
    let short = bytes(2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes);
    let long = bytes(4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    // c.jalr rs1: 100 1 rs1 00000 10.
    let short = short.filter(|word| word & 0xf07f == 0x9002).map(|word| (usize::from(word >> 7 & 31), 0));
    // jalr ra, imm(rs1).
    let long = long.filter(|word| word & 0x7fff == 0x00e7);
    let long = long.map(|word| ((word >> 15 & 31) as usize, i64::from(word.cast_signed() >> 20)));
    [short, long].into_iter().flatten().any(|(register, distance)| {
        let address = registers[register].wrapping_add_signed(distance) & !1;
        register != 0 && (register == RA || address == pc)
    })
}

/// Runs the machine until its script exits, like `AsmMachine::run`, and records jump targets.
///
/// # Errors
/// Those of `AsmMachine::run`.
pub(crate) fn run(vm: &mut DefaultMachine<Core>, observed: &mut Observed) -> Result<i8, Error> {
    Interpreter::new(vm).run(vm, None, Some(observed))?;
    Ok(vm.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_added() {
        let mut set = AddressSet::new();
        let addresses = [0, 2, 126, 128, 0x1_0000, GUEST_MEMORY_BYTES - 2];
        addresses.into_iter().for_each(|address| set.add(address));
        set.add(GUEST_MEMORY_BYTES);
        set.add(u64::MAX);
        assert_eq!(set.iter().collect::<Vec<_>>(), addresses);
        assert!(set.has(126) && !set.has(4) && !set.has(u64::MAX));
    }
}
