//! What there is to see.

use antares_hosted::look::{LookFrame, LookInstruction, LookView};
use antares_profile::syscall_name;

use super::{
    Look,
    names::{Caller, shown},
};
use crate::{Access, Stop};

/// How much is shown: bytes of memory, system calls, functions under way, instructions before and behind.
const MEMORY_BYTES: usize = 256;
const CALLS: usize = 64;
const FRAMES: usize = 64;
const INSTRUCTIONS: (usize, usize) = (24, 48);
/// How far before the next instruction the first one that is shown may be, bytes.
const BEFORE_BYTES: u64 = 4 * INSTRUCTIONS.0 as u64;
/// Instructions whose last operand is how far they go.
const JUMPS: [&str; 7] = ["jal", "beq", "bne", "blt", "bge", "bltu", "bgeu"];
/// The end of the stack.
const SP: usize = 2;
/// The first argument of a system call.
const A0: usize = 10;

impl Look {
    /// What there is to see now.
    pub fn view(&mut self) -> LookView {
        let vm = self.vm;
        let Some(registers) = self.debuggee.registers(vm) else {
            let (stop, answer) = (self.stop.clone(), format!("VM {vm} is not there"));
            return LookView { stop, answer, vms: self.debuggee.vms().collect(), ..LookView::default() };
        };
        let frames = self.frames(vm);
        let memory_at = self.memory_at.unwrap_or(registers.general[SP]);
        let mut memory = vec![0; MEMORY_BYTES];
        let read = self.debuggee.read(vm, memory_at, &mut memory);
        memory.truncate(read);
        let mut calls = self.calls_before(CALLS);
        if let Some(next) = self.next_call(vm) {
            calls.push(format!("> {next}"));
        }
        LookView {
            stop: self.stop.clone(),
            answer: self.answer.clone(),
            vm,
            vms: self.debuggee.vms().collect(),
            cycles: self.debuggee.cycles(),
            pc: registers.pc,
            registers: registers.general,
            broken_lines: self.broken_lines(vm, frames.first()),
            frames,
            assembly: self.assembly(vm, registers.pc),
            memory_at,
            memory,
            calls,
        }
    }

    fn frames(&mut self, vm: u64) -> Vec<LookFrame> {
        let mut frames = Vec::new();
        let Some(registers) = self.debuggee.registers(vm) else { return frames };
        let mut at = Caller { pc: registers.pc, registers: registers.general };
        while frames.len() < FRAMES {
            let is_innermost = frames.is_empty();
            let Some(names) = self.names(vm) else { break };
            // Behind a call is what comes next, perhaps of another line.
            let place = if is_innermost { at.pc } else { at.pc.saturating_sub(1) };
            frames.extend(names.locate(place).into_iter().map(|location| {
                let (file, line) = location.line.map_or((None, 0), |line| (Some(line.file), line.line));
                let function = shown(&location.function);
                LookFrame { address: at.pc, function, file: file.as_deref().map(shown), line }
            }));
            match self.caller_of(vm, at.pc, &at.registers, is_innermost) {
                // A stack grows, or nobody knows where it goes.
                Some(caller)
                    if caller.pc != 0
                        && (caller.registers[SP], caller.pc) != (at.registers[SP], at.pc)
                        && caller.registers[SP] >= at.registers[SP] =>
                {
                    at = caller;
                }
                _ => break,
            }
        }
        frames.truncate(FRAMES);
        frames
    }

    /// Who called the function of `vm` that is at `pc`.
    pub(super) fn caller_of(
        &mut self,
        vm: u64,
        pc: u64,
        registers: &[u64; 32],
        is_innermost: bool,
    ) -> Option<Caller> {
        self.names(vm)?;
        let number = self.debuggee.program_number(vm)?;
        let (names, debuggee) = (self.names.get(&number)?, &mut self.debuggee);
        let mut read = |address| {
            let mut bytes = [0; 8];
            (debuggee.read(vm, address, &mut bytes) == bytes.len()).then(|| u64::from_le_bytes(bytes))
        };
        names.caller(pc, registers, is_innermost, &mut read)
    }

    fn assembly(&mut self, vm: u64, pc: u64) -> Vec<LookInstruction> {
        let extent = self.names(vm).and_then(|names| names.extent(pc)).filter(|extent| extent.0 <= pc);
        // From a function's beginning on, instructions are where they are executed.
        let start = extent.map_or(pc, |(start, _)| start);
        let from = if pc - start > BEFORE_BYTES * 64 { pc } else { start };
        let most = usize::try_from((pc - from) / 2).unwrap_or(0) + INSTRUCTIONS.1;
        let decoded = self.debuggee.instructions(vm, from, most);
        let at = decoded.iter().position(|(address, _)| *address >= pc).unwrap_or(0);
        let shown = decoded.into_iter().skip(at.saturating_sub(INSTRUCTIONS.0));
        let shown = shown.take(INSTRUCTIONS.0.min(at) + INSTRUCTIONS.1);
        shown
            .map(|(address, text)| {
                let (text, is_broken) = (self.readable(vm, address, &text), self.points.contains(&address));
                LookInstruction { address, text, is_broken }
            })
            .collect()
    }

    /// An instruction without the versions in which ckb-vm has it, and with the place that it may go to.
    fn readable(&mut self, vm: u64, address: u64, text: &str) -> String {
        let (name, operands) = text.split_once(' ').unwrap_or((text, ""));
        let name = name.strip_suffix("_version0").or(name.strip_suffix("_version1")).unwrap_or(name);
        if ["ecall", "ebreak"].contains(&name) {
            return name.to_owned();
        }
        let offset = operands.rsplit(',').next().and_then(|last| last.parse::<i64>().ok());
        let target =
            offset.filter(|_| JUMPS.contains(&name)).map(|offset| address.wrapping_add_signed(offset));
        let Some(target) = target else { return format!("{name} {operands}") };
        let function = self.names(vm).filter(|names| names.extent(target).is_some_and(|it| it.0 == target));
        let function = function.and_then(|names| names.locate(target).pop());
        let function = function.map(|location| format!(" {}", shown(&location.function)));
        format!("{name} {operands}  # {target:x}{}", function.unwrap_or_default())
    }

    fn broken_lines(&mut self, vm: u64, frame: Option<&LookFrame>) -> Vec<u32> {
        let Some(file) = frame.and_then(|frame| frame.file.clone()) else { return Vec::new() };
        let points: Vec<_> = self.points.iter().copied().collect();
        let Some(names) = self.names(vm) else { return Vec::new() };
        let lines = points.into_iter().filter_map(|point| names.line(point));
        lines.filter(|line| shown(&line.file) == file).map(|line| line.line).collect()
    }

    /// The system call that `vm` makes next, as people read it.
    pub(super) fn next_call(&mut self, vm: u64) -> Option<String> {
        let number = self.debuggee.next_call(vm)?;
        let registers = self.debuggee.registers(vm)?.general;
        let arguments: Vec<_> = (0..arity(number)).map(|index| argument(number, index, &registers)).collect();
        Some(format!("VM {vm} {}({})", call_name(number), arguments.join(", ")))
    }

    /// Why it stopped, as people read it.
    pub(super) fn reason(&mut self, stop: &Stop, back: bool) -> String {
        match stop {
            Stop::Stepped | Stop::Program => String::new(),
            Stop::Breakpoint { address } if *address != self.pc() => {
                format!("breakpoint at {address:#x}, the second of two instructions that are executed as one")
            }
            Stop::Breakpoint { address } => format!("breakpoint at {address:#x}"),
            Stop::Watch(watch) => {
                let what = match watch.access {
                    Access::Write => "written",
                    Access::Read => "read",
                    Access::Any => "used",
                };
                let when = if back { "is about to be" } else { "was" };
                format!("{:#x} {when} {what}", watch.address)
            }
            Stop::Call(number) => format!("before {}", call_name(*number)),
            Stop::Cycles => "so many cycles".to_owned(),
            Stop::FailingExit(code) => format!("about to exit with {code}"),
            Stop::Exited(code) => format!("exited with {code}"),
            Stop::Failed { error, .. } => format!("failed: {error}"),
            Stop::Beginning => "nothing is before this".to_owned(),
            Stop::Interrupted => "stopped".to_owned(),
        }
    }
}

/// A system call as people know it.
pub(super) fn call_name(number: u64) -> String {
    syscall_name(number).map_or_else(|| format!("system call {number}"), str::to_owned)
}

/// How many arguments a system call has.
fn arity(number: u64) -> usize {
    match number {
        2041 | 2042 | 2603 => 0,
        93 | 2177 | 2604 | 2608 => 1,
        2602 | 2607 => 2,
        2051 | 2052 | 2061 | 2062 | 2605 | 2606 => 3,
        2071..=2074 | 2092 | 2104 | 2601 => 5,
        _ => 6,
    }
}

fn argument(number: u64, index: usize, registers: &[u64; 32]) -> String {
    let value = registers[A0 + index];
    let is_source = match number {
        2071..=2074 | 2081..=2083 | 2092 | 2104 => index == 4,
        2043 | 2601 => index == 1,
        2091 => index == 5,
        _ => false,
    };
    let name = match value {
        1 => "input",
        2 => "output",
        3 => "cell_dep",
        4 => "header_dep",
        0x0100_0000_0000_0001 => "group_input",
        0x0100_0000_0000_0002 => "group_output",
        _ => "",
    };
    match value {
        _ if is_source && !name.is_empty() => name.to_owned(),
        0..10 => value.to_string(),
        _ => format!("{value:#x}"),
    }
}
