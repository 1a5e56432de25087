//! Derives a diagnosis from evidence.

use antares_profile::evidence::{
    Evidence,
    records::{Ending as Ended, Fault, Made, Vm},
};
use antares_profile_view::Programs;

use crate::{
    calls,
    codes::{self, ErrorCodes},
    decide,
    encoding::{exit_summary, source_at},
    faults,
    names::{CellFinder, Namer},
    report::{Branch, Child, Diagnosis, Ending, Frame, Instruction, Register, Step, Value, decided_at},
};

/// Names of registers.
const REGISTERS: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6",
    "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

/// The inputs of a diagnosis.
pub struct Inputs<'a> {
    /// The evidence.
    pub evidence: &'a Evidence,
    /// The ELFs of its programs, as far as available.
    pub programs: &'a Programs,
    /// The data of a cell of the transaction, by source and index.
    pub cells: &'a CellFinder<'a>,
    /// The text of a source file, by the compiler's name for the file.
    pub source: &'a dyn Fn(&str) -> Option<String>,
    /// Meanings of the script's exit codes, from its author.
    pub codes: &'a ErrorCodes,
    /// The VM's error, as the report names it. Evidence has only `Refused` for a postponed system call
    /// that failed.
    pub error: Option<&'a str>,
    /// The code hash (hexadecimal digits) of a script that is referenced by type.
    pub code_hash: Option<&'a str>,
}

/// Finds out why the script failed; `None` if nothing ran.
#[must_use]
pub fn diagnose(inputs: &Inputs<'_>) -> Option<Diagnosis> {
    let evidence = inputs.evidence;
    let namer = Namer::new(evidence, inputs.programs, inputs.cells);
    let (vm, others) = evidence.vms.split_last()?;
    let teller = Describer { inputs, namer: &namer };
    let child = teller.child(vm);
    let fault = fault(vm);
    let (has_names, has_lines) = namer.has(vm.program);
    let summary = teller.summary(vm, &child);
    let stack = namer.stack(&vm.stack, vm.id);
    let steps = evidence.steps.iter().map(|step| teller.step(step, vm.id)).collect();
    Some(Diagnosis {
        summary,
        source: source_at(&child.place, inputs.source),
        ending: child.ending,
        place: child.place,
        stack,
        stack_left_out: vm.stack.left_out,
        instruction: Instruction {
            address: vm.pc,
            text: namer.instruction(vm.program, vm.pc, vm.id).map(|it| it.to_string()),
            fault_address: fault.and_then(faults::address),
            fault: fault.map(<&str>::from).map(Into::into),
            fault_at: fault.and_then(faults::address).map(|at| namer.what_is_at(at, vm.id, vm.program)),
        },
        value: vm.value.as_ref().map(|value| teller.value(value, vm.id)),
        branch: child.branch,
        system_call: child.system_call,
        system_calls: evidence.system_calls.iter().map(|call| calls::decode_call(call, &namer)).collect(),
        system_calls_left_out: evidence.system_calls_left_out,
        registers: registers_of(vm),
        children: others.iter().map(|vm| teller.child(vm)).collect(),
        javascript: Vec::new(),
        steps,
        is_followed: vm.is_followed,
        has_names,
        has_lines,
        is_shortened: false,
    })
}

fn registers_of(vm: &Vm) -> Vec<Register> {
    let registers = REGISTERS.iter().zip(vm.registers);
    registers.map(|(name, value)| Register { name: (*name).into(), value }).collect()
}

fn fault(vm: &Vm) -> Option<Fault> {
    match &vm.ending {
        Ended::Error { fault, .. } => *fault,
        Ended::Exit(_) => None,
    }
}

struct Describer<'a> {
    inputs: &'a Inputs<'a>,
    namer: &'a Namer,
}

impl Describer<'_> {
    /// How a VM ended, and the location of the decision.
    fn child(&self, vm: &Vm) -> Child {
        let stack = self.namer.stack(&vm.stack, vm.id);
        let branch = decide::branch(vm, self.namer);
        let under_way = match fault(vm) {
            Some(Fault::SystemCall { .. }) => self.last_call(vm.id),
            _ => None,
        };
        let value = vm.value.as_ref();
        let system_call = under_way.or_else(|| decide::system_call(value, branch));
        Child {
            ending: self.ending(vm, system_call),
            place: self.deciding_frames(vm, &stack, branch),
            stack,
            branch: branch.map(|branch| self.branch(branch, vm.id)),
            system_call,
        }
    }

    fn name<'b>(&'b self, error: &'b str) -> &'b str {
        if error == "Refused" { self.inputs.error.unwrap_or(error) } else { error }
    }

    fn last_call(&self, vm: u64) -> Option<u64> {
        self.inputs.evidence.system_calls.iter().rev().find(|call| call.vm == vm).map(|call| call.index)
    }

    /// The location of the decision. For an exit: the branch, or else the code that computed the exit code.
    /// Otherwise: the end.
    fn deciding_frames(
        &self,
        vm: &Vm,
        stack: &[Frame],
        branch: Option<&antares_profile::evidence::records::Branch>,
    ) -> Vec<Frame> {
        let here = || decide::own(stack).unwrap_or(stack).to_vec();
        match fault(vm) {
            // There is no code at the target: the jump decides.
            Some(Fault::Fetch { from: Some(from), .. }) if stack.len() > 1 => {
                let rest = &stack[1..];
                let jump = self.namer.frames(vm.program, from, vm.id);
                // After a tail call, the caller is no longer active.
                let is_known =
                    |frame: &Frame| rest.first().is_some_and(|first| first.function == frame.function);
                let jump = jump.into_iter().filter(|frame| !is_known(frame));
                let all: Vec<_> = jump.chain(rest.iter().cloned()).collect();
                return decide::own(&all).unwrap_or(&all).to_vec();
            }
            _ if matches!(vm.ending, Ended::Error { .. }) => return here(),
            _ => {}
        }
        let compared = branch.map(|branch| self.namer.stack(&branch.stack, vm.id)).unwrap_or_default();
        if let Some(own) = decide::own(&compared) {
            return own.to_vec();
        }
        let made = match (decide::maker(vm, self.namer), vm.value.as_ref().map(|value| &value.made)) {
            (Some(stack), _) => self.namer.stack(stack, vm.id),
            (_, Some(Made::SystemCall(index) | Made::Memory { system_call: Some(index), .. })) => {
                self.frames_of_call(*index)
            }
            _ => Vec::new(),
        };
        // A panic decides nothing itself: its caller does.
        let is_panic = made.first().is_some_and(|frame| decide::is_runtime(&frame.function))
            && decide::own(stack).is_some();
        match decide::own(&made) {
            Some(own) if !is_panic => own.to_vec(),
            // A call at the end of a function has replaced the author's own.
            None if decide::own(stack).is_none() && !compared.is_empty() => compared,
            _ => here(),
        }
    }

    fn frames_of_call(&self, index: u64) -> Vec<Frame> {
        let call = self.inputs.evidence.system_calls.iter().find(|call| call.index == index);
        call.map(|call| self.namer.stack(&call.stack, call.vm)).unwrap_or_default()
    }

    fn ending(&self, vm: &Vm, system_call: Option<u64>) -> Ending {
        let ending = Ending { kind: "exit".into(), vm: vm.id, ..Ending::default() };
        match &vm.ending {
            Ended::Exit(code) => {
                let (meaning, meaning_from) = self.meaning(*code, vm, system_call).unzip();
                Ending { exit_code: Some(*code), meaning, meaning_from, ..ending }
            }
            Ended::Error { name, detail, fault } => {
                let version = self.inputs.evidence.programs.get(vm.program as usize).map(|it| it.vm_version);
                let advice = match fault {
                    _ if name == "InvalidInstruction" => faults::of_instruction(detail.as_deref(), version),
                    Some(Fault::Fetch { .. }) if name.starts_with("Mem") => Some(faults::NO_CODE),
                    _ => faults::advice(self.name(name)),
                };
                Ending {
                    kind: "error".into(),
                    error: Some(self.name(name).to_owned()),
                    detail: detail.clone(),
                    advice: advice.map(ToOwned::to_owned),
                    ..ending
                }
            }
        }
    }

    /// The meaning of an exit code, and its source.
    fn meaning(&self, code: i8, vm: &Vm, system_call: Option<u64>) -> Option<(String, String)> {
        if code == 0 {
            return None;
        }
        let of_elf = || ErrorCodes::of_elf(self.namer.elf(vm.program).unwrap_or_default());
        let own = self.inputs.codes.meaning(code).map(ToOwned::to_owned);
        if let Some(meaning) = own.or_else(|| of_elf().meaning(code).map(ToOwned::to_owned)) {
            return Some((meaning, "script".to_owned()));
        }
        let functions = self.namer.functions(vm.program);
        let code_hash = self.inputs.code_hash.filter(|_| vm.id == 0);
        if let Some((meaning, name)) = codes::of_system(code, code_hash, &functions) {
            return Some((meaning, name.to_owned()));
        }
        // ckb-std's errors are those of system calls: use them only if a system call decided.
        let is_std = functions.iter().any(|name| name.contains("ckb_std"));
        let failed = |index| {
            let mut calls = self.inputs.evidence.system_calls.iter();
            calls.any(|call| call.index == index && calls::has_failed(call))
        };
        let is_std = is_std && system_call.is_some_and(failed);
        codes::of_ckb_std(code).filter(|_| is_std).map(|meaning| (meaning.to_owned(), "ckb-std".to_owned()))
    }

    fn summary(&self, vm: &Vm, child: &Child) -> String {
        let place = decided_at(&child.place);
        match (&vm.ending, &child.ending) {
            (Ended::Exit(code), Ending { meaning, .. }) => exit_summary(*code, meaning.as_deref(), &place),
            (Ended::Error { name, fault, .. }, _) => {
                format!("{},{place}", faults::words(vm, self.name(name), *fault, self.namer))
            }
        }
    }

    fn value(&self, value: &antares_profile::evidence::records::Value, vm: u64) -> Value {
        let (made, place, address) = match &value.made {
            Made::Before => ("before", Vec::new(), None),
            Made::Code { stack, .. } => ("code", self.namer.stack(stack, vm), None),
            Made::SystemCall(index) => ("system_call", self.frames_of_call(*index), None),
            Made::Memory { address, .. } => ("memory", Vec::new(), Some(*address)),
        };
        let system_call = decide::of_value(value);
        Value { value: value.value, made: made.into(), place, system_call, address }
    }

    fn branch(&self, branch: &antares_profile::evidence::records::Branch, vm: u64) -> Branch {
        let [left, right] = branch.registers.map(|register| REGISTERS[usize::from(register) & 31]);
        Branch {
            place: self.namer.stack(&branch.stack, vm),
            text: format!("{} {left},{right}", branch.name),
            is_taken: branch.is_taken,
            left: self.value(&branch.left, vm),
            right: self.value(&branch.right, vm),
            left_register: left.into(),
            right_register: right.into(),
        }
    }

    fn step(&self, step: &antares_profile::evidence::records::Step, vm: u64) -> Step {
        let frames = self.namer.frames(step.program, step.pc, vm);
        Step {
            address: step.pc,
            function: frames.into_iter().next_back().map(|frame| frame.function).unwrap_or_default(),
            text: self.namer.instruction(step.program, step.pc, vm).map(|it| it.to_string()),
            register: step.changed.map(|(register, _)| REGISTERS[usize::from(register) & 31].into()),
            value: step.changed.map(|(_, value)| value),
        }
    }
}
