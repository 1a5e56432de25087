//! Collects evidence of a run: its last system calls, and its last instructions one by one, to explain how it
//! ended.

use std::collections::{BTreeMap, VecDeque};

use antares_profile::evidence::{
    Evidence,
    limits::{EXCERPT_BYTES_MAX, PROGRAMS_MAX, STEPS_MAX, VMS_MAX},
    records::{Ending, Excerpt, Fault, Program, Step, Vm},
};
use ckb_vm::{
    CoreMachine, DefaultMachine, Error, SupportMachine,
    ckb_vm_definitions::instructions::{Instruction, OP_ECALL},
    instructions::extract_opcode,
    registers::{A0, SP},
};

use crate::{
    Outcome,
    addresses::Addresses,
    calls::Calls,
    memory::Core,
    outcome::failure,
    recording::Recording,
    shadow::{At, Registers, Shadow, base},
    touch::{Touch, touched},
    witness::{self, Caller},
};

/// The data to collect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watching {
    /// Cycles of the run from which instructions are followed one by one.
    pub follow_from: u64,
    /// Cycles of a suspension or resumption of a VM.
    pub switch_cycles: u64,
    /// Maximum recorded system calls.
    pub system_calls_max: usize,
    /// Maximum recorded instructions.
    pub steps_max: usize,
}

/// How a VM ended.
pub(crate) struct End<'a> {
    pub(crate) id: u64,
    pub(crate) calls: &'a Calls,
    pub(crate) result: &'a Result<i8, Error>,
}

/// Evidence of a run in progress.
pub(crate) struct Watch {
    watching: Watching,
    /// The running VM.
    vm: u64,
    /// Cycles of all earlier turns of VMs.
    spent: u64,
    /// Cycles of the running VM from which instructions are followed.
    limit: u64,
    is_following: bool,
    /// The values of the running VM, if its instructions are followed, and those of waiting VMs.
    shadow: Option<Shadow>,
    others: BTreeMap<u64, Shadow>,
    pub(crate) system_calls: witness::Calls,
    steps: VecDeque<Step>,
    vms: VecDeque<Vm>,
    /// The current instruction.
    at: Option<(At, Instruction)>,
}

impl Watch {
    pub(crate) fn new(watching: Watching) -> Self {
        Self {
            watching,
            vm: 0,
            spent: 0,
            limit: watching.follow_from,
            is_following: watching.follow_from == 0,
            shadow: None,
            others: BTreeMap::new(),
            system_calls: witness::Calls::new(watching.system_calls_max),
            steps: VecDeque::new(),
            vms: VecDeque::new(),
            at: None,
        }
    }

    /// A VM starts or resumes, after `switches` suspensions and resumptions of all VMs.
    pub(crate) fn begin(&mut self, vm: &DefaultMachine<Core>, id: u64, switches: u64) {
        (self.vm, self.at) = (id, None);
        self.vms.retain(|ended| ended.id != id || !is_refused(ended));
        self.system_calls.go_on(vm, id);
        let spent = self.spent.saturating_add(switches.saturating_mul(self.watching.switch_cycles));
        self.limit = self.watching.follow_from.saturating_sub(spent);
        self.is_following |= vm.cycles() >= self.limit;
        self.shadow = self.others.remove(&id);
    }

    /// The running VM stops for now.
    pub(crate) fn stop(&mut self, vm: &DefaultMachine<Core>) {
        self.spent = self.spent.saturating_add(vm.cycles());
        if let Some(shadow) = self.shadow.take() {
            self.others.insert(self.vm, shadow);
        }
    }

    /// Another program replaces the one of a VM.
    pub(crate) fn forget(&mut self, id: u64) {
        self.others.remove(&id);
        if id == self.vm {
            (self.shadow, self.at) = (None, None);
        }
    }

    /// Like [`Watch::forget`], for the running VM.
    pub(crate) fn forget_running(&mut self) {
        self.forget(self.vm);
    }

    /// The next trace is about to be decoded.
    pub(crate) fn arrive(&mut self) {
        self.at = None;
    }

    pub(crate) fn is_following(&self) -> bool {
        self.is_following
    }

    /// Cycles of the running VM from which instructions are followed.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Starts to follow instructions.
    pub(crate) fn follow(&mut self) {
        self.is_following = true;
    }

    /// The instruction at `pc` is about to run.
    pub(crate) fn step(&mut self, calls: &Calls, pc: u64, instruction: Instruction) {
        let shadow = self.shadow.get_or_insert_with(Shadow::new);
        shadow.be_in(calls.depth());
        self.at = Some((shadow.at(pc, calls.context), instruction));
    }

    /// The current instruction has run.
    pub(crate) fn stepped(&mut self, vm: &DefaultMachine<Core>, program: u32, before: &Registers) {
        let (Some((at, instruction)), Some(shadow)) = (self.at.take(), &mut self.shadow) else { return };
        let registers = vm.memory().guest_registers();
        shadow.record(at, instruction, before, (registers, *vm.pc()));
        self.keep(at.pc, program, before, registers);
    }

    fn keep(&mut self, pc: u64, program: u32, before: &Registers, after: &Registers) {
        if self.watching.steps_max == 0 {
            return;
        }
        if self.steps.len() >= self.watching.steps_max.min(STEPS_MAX) {
            self.steps.pop_front();
        }
        let changed = (1_u8..).zip(before[1..].iter().zip(&after[1..])).find(|(_, (old, new))| old != new);
        self.steps.push_back(Step {
            program,
            pc,
            changed: changed.map(|(register, (_, new))| (register, *new)),
        });
    }

    /// A system call at `pc` is about to run. Returns its index.
    pub(crate) fn call(&mut self, vm: &DefaultMachine<Core>, calls: &Calls, pc: u64) -> u64 {
        let caller = Caller { vm: self.vm, context: calls.context, program: calls.program, pc };
        let index = self.system_calls.begin(vm, caller);
        let registers = vm.memory().guest_registers();
        self.keep(pc, calls.program, registers, registers);
        if self.is_following
            && let Some(shadow) = &mut self.shadow
        {
            self.at = self.at.or_else(|| Some((shadow.at(pc, calls.context), 0)));
        }
        index
    }

    /// The system call returned after `cost` cycles, made the VM wait, or failed.
    pub(crate) fn called(
        &mut self,
        vm: &DefaultMachine<Core>,
        index: u64,
        cost: u64,
        result: &Result<(), Error>,
    ) {
        match result {
            Ok(()) if vm.running() => self.system_calls.end(vm, index, cost),
            Err(Error::Yield) => self.system_calls.wait(self.vm, index),
            _ => return,
        }
        self.at = None;
        if let Some(shadow) = &mut self.shadow {
            shadow.record_system_call(index);
        }
    }

    /// A VM ended; `end` has its active calls.
    pub(crate) fn end(&mut self, vm: &DefaultMachine<Core>, end: &End<'_>, recording: &Recording) {
        let registers = *vm.memory().guest_registers();
        let addresses =
            Addresses { recording, program: end.calls.program, vm: end.id, system_calls: &self.system_calls };
        let shadow = if end.id == self.vm { self.shadow.as_ref() } else { None };
        let shadow = shadow.or_else(|| self.others.get(&end.id));
        let under_way = self.at;
        // After a system call that ends a VM, the pc is that of the next instruction.
        let pc = match (under_way, end.result) {
            (Some((at, _)), _) => at.pc,
            (None, Ok(_) | Err(Error::Yield)) => vm.pc().wrapping_sub(4),
            (None, Err(_)) => *vm.pc(),
        };
        let (ending, value, register) = match end.result {
            Ok(code) => {
                let value = shadow.map(|shadow| shadow.value(A0, registers[A0], &addresses));
                (Ending::Exit(*code), value, Some(A0))
            }
            Err(error) => {
                let fault = fault(error, under_way, (&registers, pc), shadow, &addresses);
                let value = match fault {
                    Some(Fault::Load { address, .. } | Fault::Store { address, .. }) => {
                        let register = under_way.map(|(_, instruction)| base(instruction));
                        register.zip(shadow).map(|(it, shadow)| shadow.value(it, address, &addresses))
                    }
                    Some(Fault::Fetch { .. }) => {
                        shadow.and_then(|shadow| shadow.last_jump(&addresses)).map(|(_, value)| value)
                    }
                    _ => None,
                };
                (ending_of(error, fault), value, None)
            }
        };
        let (branches, later_branches) =
            shadow.map(|shadow| shadow.deciders(register, &addresses)).unwrap_or_default();
        let sp = registers[SP];
        let bytes = witness::excerpt(vm.memory().bytes(), sp, EXCERPT_BYTES_MAX as u64);
        let ended = Vm {
            id: end.id,
            program: end.calls.program,
            ending,
            pc,
            registers,
            stack: addresses.whole(end.calls, pc),
            value,
            branches,
            later_branches,
            memory: (!bytes.is_empty()).then_some(Excerpt { address: sp, bytes }),
            is_followed: shadow.is_some(),
        };
        if self.vms.len() >= VMS_MAX {
            self.vms.pop_front();
        }
        self.vms.push_back(ended);
        self.others.remove(&end.id);
    }

    /// Returns the collected evidence.
    pub(crate) fn finish(self, recording: &Recording) -> Evidence {
        let programs = recording.programs().iter().take(PROGRAMS_MAX);
        let program =
            |it: &crate::Recorded| Program { elf: it.digest(), vm_version: it.vm_version, isa: it.isa };
        let (system_calls, system_calls_left_out, codes) = self.system_calls.finish(recording);
        Evidence {
            programs: programs.map(program).collect(),
            vms: self.vms.into(),
            system_calls,
            system_calls_left_out,
            codes,
            steps: self.steps.into(),
        }
    }
}

/// Evidence uses this name for the error of a postponed system call that ckb-script refused.
const REFUSED: &str = "Refused";

fn is_refused(vm: &Vm) -> bool {
    matches!(&vm.ending, Ending::Error { name, .. } if name == REFUSED)
}

/// Converts an error to the evidence of an ending.
fn ending_of(error: &Error, fault: Option<Fault>) -> Ending {
    match failure(error.clone()) {
        _ if *error == Error::Yield => Ending::Error { name: REFUSED.to_owned(), detail: None, fault },
        Outcome::Error { name, detail } => Ending::Error { name, detail, fault },
        _ => Ending::Error { name: "CyclesExceeded".to_owned(), detail: None, fault: Some(Fault::Cycles) },
    }
}

/// The failed operation of the current instruction.
fn fault(
    error: &Error,
    under_way: Option<(At, Instruction)>,
    (registers, pc): (&Registers, u64),
    shadow: Option<&Shadow>,
    addresses: &Addresses<'_>,
) -> Option<Fault> {
    if *error == Error::Yield {
        return Some(Fault::SystemCall { number: registers[ckb_vm::registers::A7] });
    }
    let Some((_, instruction)) = under_way else {
        let from = shadow
            .and_then(|shadow| shadow.last_jump(addresses))
            .and_then(|(at, to)| (to.value == pc).then_some(at));
        return match error {
            Error::CyclesExceeded => Some(Fault::Cycles),
            _ => shadow.map(|_| Fault::Fetch { address: pc, from }),
        };
    };
    let is_call = instruction == 0 || extract_opcode(instruction) == OP_ECALL;
    if is_call || *error == Error::CyclesExceeded {
        return Some(match error {
            Error::CyclesExceeded => Fault::Cycles,
            _ => Fault::SystemCall { number: registers[ckb_vm::registers::A7] },
        });
    }
    Some(match touched(instruction, registers) {
        Some(Touch { address, is_atomic: true, .. }) => Fault::Store { address, bytes: 8 },
        Some(Touch { address, bytes, writes: true, .. }) => Fault::Store { address, bytes },
        Some(Touch { address, bytes, .. }) => Fault::Load { address, bytes },
        None => Fault::Other,
    })
}
