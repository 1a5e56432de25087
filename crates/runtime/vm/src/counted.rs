//! A machine that runs ckb-vm's Rust interpreter and counts control flow by the rule of counted builds. It is
//! the reference for native code, and records the values that branches compare.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex, PoisonError},
};

use antares_abi::{branch_counter, jump_counter};
use ckb_vm::{
    CoreMachine, DefaultMachine, DefaultMachineRunner, Error, ISA_MOP, SupportMachine,
    cost_model::estimate_cycles,
    decoder::{Decoder, build_decoder},
    instructions::{
        Itype, Stype, execute, extract_opcode, instruction_length,
        insts::{OP_BEQ, OP_BGE, OP_BGEU, OP_BLT, OP_BLTU, OP_BNE, OP_JALR_VERSION0, OP_JALR_VERSION1},
    },
    machine::VERSION0,
    registers::{RA, T0, ZERO},
};

use crate::{
    counters::Counters,
    current::{self, Current},
    memory::Core,
};

/// Maximum number of compared pairs per run.
const COMPARED_MAX: usize = 4096;

thread_local! {
    static CURRENT: Current<CountingSession> = const { RefCell::new(None) };
}

/// Shared state of one transaction's machines.
pub struct CountingSession {
    bits: u8,
    counters: Counters,
    /// Unequal values that branches compared, if requested.
    compared: Option<Mutex<Vec<(u64, u64)>>>,
    /// Where the last machine failed.
    failed_at: Mutex<Option<u64>>,
}

impl CountingSession {
    /// Creates a session with counter indexes of `bits` bits; with `compares` it also records what branches
    /// compare.
    #[must_use]
    pub fn new(bits: u8, compares: bool) -> Arc<Self> {
        let compared = compares.then(Mutex::default);
        Arc::new(Self { bits, counters: Counters::new(bits), compared, failed_at: Mutex::default() })
    }

    /// Runs `attempt` with this session as the one its machines count in.
    pub fn attempt<T>(self: &Arc<Self>, attempt: impl FnOnce() -> T) -> T {
        current::enter(&CURRENT, self, attempt)
    }

    /// Passes the counters since the last call to `read`, and resets them.
    pub fn take_counters(&self, read: impl FnOnce(&mut [u8])) {
        self.counters.take(read);
    }

    /// Address of the instruction at which a machine failed since the last call. If an instruction fetch
    /// failed, it is the last instruction before it.
    #[must_use]
    pub fn take_failed_at(&self) -> Option<u64> {
        self.failed_at.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The pairs of different values that branches compared since the last call, sorted and deduplicated.
    #[must_use]
    pub fn take_compared(&self) -> Vec<(u64, u64)> {
        let Some(compared) = &self.compared else { return Vec::new() };
        let mut pairs = std::mem::take(&mut *compared.lock().unwrap_or_else(PoisonError::into_inner));
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }
}

/// A machine for ckb-script's `Scheduler` that counts in the [`CountingSession`] current at its creation.
/// Without a session it runs nothing.
pub struct CountedMachine {
    vm: DefaultMachine<Core>,
    session: Option<Arc<CountingSession>>,
    decoder: Option<Decoder>,
    compared: Vec<(u64, u64)>,
}

impl DefaultMachineRunner for CountedMachine {
    type Inner = Core;

    fn new(vm: DefaultMachine<Core>) -> Self {
        let session = CURRENT.with_borrow(Option::clone);
        Self { vm, session, decoder: None, compared: Vec::new() }
    }

    fn machine(&self) -> &DefaultMachine<Core> {
        &self.vm
    }

    fn machine_mut(&mut self) -> &mut DefaultMachine<Core> {
        &mut self.vm
    }

    fn run(&mut self) -> Result<i8, Error> {
        let Some(session) = self.session.clone() else { return Err(Error::Unimplemented) };
        let mut at = *self.vm.pc();
        let ended = self.steps(&session, &mut at);
        if ended.is_err() {
            *session.failed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        }
        if let Some(compared) = &session.compared {
            compared.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.compared);
        }
        ended
    }
}

impl CountedMachine {
    /// Runs the script; `at` is the address of the current instruction.
    fn steps(&mut self, session: &CountingSession, at: &mut u64) -> Result<i8, Error> {
        let Self { vm, decoder, compared, .. } = self;
        if vm.isa() & ISA_MOP != 0 && vm.version() == VERSION0 {
            return Err(Error::InvalidVersion);
        }
        let decoder = decoder.get_or_insert_with(|| build_decoder::<u64>(vm.isa(), vm.version()));
        let (mut counters, bits) = (session.counters.lock(), session.bits);
        let keeps = session.compared.is_some();
        vm.set_running(true);
        while vm.running() {
            if vm.reset_signal() {
                decoder.reset_instructions_cache();
            }
            let pc = *vm.pc();
            let instruction = decoder.decode(vm.memory_mut(), pc)?;
            *at = pc;
            vm.add_cycles(estimate_cycles(instruction))?;
            let place = match way(instruction, pc, vm.registers()) {
                None => None,
                Some(Way::Jump(target)) => Some(jump_counter(target, bits)),
                Some(Way::Branch { to, other, values }) => {
                    if keeps && values.0 != values.1 && compared.len() < COMPARED_MAX {
                        compared.push(values);
                    }
                    Some(branch_counter(to, other, bits))
                }
            };
            if let Some(counter) = place.and_then(|place| counters.get_mut(place)) {
                *counter = counter.wrapping_add(1);
            }
            execute(instruction, vm)?;
        }
        Ok(vm.exit_code())
    }
}

/// The target of a branch or computed jump.
enum Way {
    Branch { to: u64, other: u64, values: (u64, u64) },
    Jump(u64),
}

fn way(instruction: u64, pc: u64, registers: &[u64]) -> Option<Way> {
    let opcode = extract_opcode(instruction);
    if matches!(opcode, OP_JALR_VERSION0 | OP_JALR_VERSION1) {
        let jump = Itype(instruction);
        let returns = jump.rd() == ZERO && matches!(jump.rs1(), RA | T0);
        let target = registers[jump.rs1()].wrapping_add_signed(jump.immediate_s().into()) & !1;
        return (!returns).then_some(Way::Jump(target));
    }
    let branch = Stype(instruction);
    let values = || (registers[branch.rs1()], registers[branch.rs2()]);
    let signed = || (values().0.cast_signed(), values().1.cast_signed());
    let is_taken = match opcode {
        OP_BEQ => values().0 == values().1,
        OP_BNE => values().0 != values().1,
        OP_BLT => signed().0 < signed().1,
        OP_BGE => signed().0 >= signed().1,
        OP_BLTU => values().0 < values().1,
        OP_BGEU => values().0 >= values().1,
        _ => return None,
    };
    let taken = pc.wrapping_add_signed(branch.immediate_s().into());
    let behind = pc.wrapping_add(instruction_length(instruction).into());
    let (to, other) = if is_taken { (taken, behind) } else { (behind, taken) };
    Some(Way::Branch { to, other, values: values() })
}
