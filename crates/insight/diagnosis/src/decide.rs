//! Finds the branch, value and location that decided.

use std::collections::BTreeSet;

use antares_profile::evidence::records::{Branch, Called, Ending, Made, Stack, Value, Vm};
use antares_program::{Instruction, Op, Reg};

use crate::{names::Namer, report::Frame};

/// Maximum instructions scanned after a branch.
const SCANNED_MAX: usize = 2048;

/// Register of a system call's number, and the number of `exit`.
const A7: Reg = Reg(17);
const EXIT: i64 = 93;

/// Prefixes of functions that only pass on the decisions of others.
const RUNTIME: [&str; 33] = [
    "[",
    "_start",
    "__libc_start",
    "core::",
    "<core::",
    "std::",
    "alloc::",
    "<alloc::",
    "ckb_std::",
    "<ckb_std::",
    "rust_begin_unwind",
    "rust_panic",
    "__rust",
    "rustc",
    "panic",
    "_R",
    "exit",
    "_exit",
    "ckb_exit",
    "__assert",
    "abort",
    "raise",
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "strlen",
    "strcmp",
    "start",
    "call",
    "compiler_builtins",
    "<&",
    "<T as",
];

/// Whether a function only passes on the decisions of others.
pub(crate) fn is_runtime(name: &str) -> bool {
    RUNTIME.iter().any(|start| name.starts_with(start) && (start.len() > 5 || is_whole(name, start)))
}

/// Short prefixes that end in a letter or digit match only the whole name.
fn is_whole(name: &str, start: &str) -> bool {
    name == start || !start.ends_with(|last: char| last.is_ascii_alphanumeric())
}

/// Path fragments of foreign code: standard libraries, crate registries, C libraries.
const FOREIGN: [&str; 8] = [
    "/library/core/",
    "/library/alloc/",
    "/library/std/",
    "/.cargo/",
    "cargo/registry/",
    "compiler_builtins",
    "/libgcc/",
    "/ckb-c-stdlib/",
];

/// Whether the script's author wrote a function that decides.
pub(crate) fn is_own(frame: &Frame) -> bool {
    let is_foreign = |file: &String| FOREIGN.iter().any(|part| file.contains(part));
    !is_runtime(&frame.function) && !is_conversion(frame) && !frame.file.as_ref().is_some_and(is_foreign)
}

/// Whether a function converts an error that was decided before: `From::from`, which `?` calls.
fn is_conversion(frame: &Frame) -> bool {
    frame.function.contains(" as core::convert::From<")
}

/// The frames from the innermost one of the author's own, preferably one with a line. `None` if there is
/// none.
pub(crate) fn own(frames: &[Frame]) -> Option<&[Frame]> {
    let with_line = frames.iter().position(|frame| is_own(frame) && frame.line.is_some());
    let first = with_line.or_else(|| frames.iter().position(is_own))?;
    Some(&frames[first..])
}

/// The instruction that made the value of `vm`: the comparison in a computation without a branch, the load from
/// a table of constants, or the last operation.
pub(crate) fn maker<'a>(vm: &'a Vm, namer: &Namer) -> Option<&'a Stack> {
    let compares = |stack| {
        let at = top(stack).and_then(|(program, pc)| namer.instruction(program, pc, vm.id));
        at.is_some_and(|it| matches!(it.op, Op::Slt | Op::Sltu | Op::Slti | Op::Sltiu))
    };
    let value = vm.value.as_ref()?;
    match (&value.made, &value.of) {
        (Made::Code { is_constant: false, .. }, Some(Made::Code { stack, .. })) if compares(stack) => {
            Some(stack)
        }
        (Made::Code { stack, .. }, _) => Some(stack),
        (Made::Memory { address, system_call: None }, Some(Made::Code { stack, .. })) => {
            namer.is_read_only(*address, vm.id, vm.program).then_some(stack)
        }
        _ => None,
    }
}

/// The branch that decided the end of `vm`; `None` if the computation of the value did.
pub(crate) fn branch<'a>(vm: &'a Vm, namer: &Namer) -> Option<&'a Branch> {
    let value = vm.value.as_ref().filter(|_| matches!(vm.ending, Ending::Exit(_)));
    let stack = match value.map(|value| &value.made) {
        Some(Made::Code { stack, is_constant: true }) => stack,
        // A call of foreign code at the end of a function has replaced the author's own.
        Some(Made::Code { stack, .. }) if own(&namer.stack(stack, vm.id)).is_none() => {
            let is_own = |branch: &&Branch| own(&namer.stack(&branch.stack, vm.id)).is_some();
            return vm.branches.iter().find(is_own);
        }
        Some(Made::Code { .. }) => return None,
        Some(_) if maker(vm, namer).is_some() => return None,
        _ => return vm.branches.first(),
    };
    let later = vm.later_branches.iter().find(|later| makes_another(stack, later, vm.id, namer));
    let decides = |branch: &&Branch| {
        let sites = stack.inner.len().checked_sub(1 + branch.calls_above as usize);
        let Some(Called::At { program, pc }) = sites.and_then(|site| stack.inner.get(site)) else {
            return false;
        };
        let names = namer.frames(*program, branch_pc(branch), vm.id);
        let decides = !names.first().is_some_and(is_conversion)
            && (names.iter().any(is_own) || has_returned(stack, sites, vm));
        decides && avoids(&Way { program: *program, vm: vm.id, from: branch.instead }, *pc, namer)
    };
    later.or_else(|| vm.branches.iter().find(decides))
}

/// Whether the call at `site` of a stack is over at the end of `vm`: it gave the value to its caller.
fn has_returned(stack: &Stack, site: Option<usize>, vm: &Vm) -> bool {
    let (Some(site), 0, 0) = (site, stack.left_out, vm.stack.left_out) else { return false };
    vm.stack.inner.len() <= site || vm.stack.inner[..site] != stack.inner[..site]
}

fn branch_pc(branch: &Branch) -> u64 {
    top(&branch.stack).map_or(branch.to, |(_, pc)| pc)
}

/// A location from which execution continues.
struct Way {
    program: u32,
    vm: u64,
    from: u64,
}

/// Result of a step along a path.
enum Step {
    GoOn,
    Turn,
    Found,
}

impl Way {
    /// Whether some path from here reaches an instruction that `look` finds, or leaves the function if
    /// `or_leaves`. Assumes that calls return.
    fn leads(&self, namer: &Namer, or_leaves: bool, look: impl Fn(u64, &Instruction) -> Step) -> bool {
        let (mut seen, mut rest) = (BTreeSet::new(), vec![self.from]);
        while let Some(pc) = rest.pop() {
            if !seen.insert(pc) {
                continue;
            }
            let it = namer.instruction(self.program, pc, self.vm).filter(|_| seen.len() <= SCANNED_MAX);
            let Some(it) = it else { return or_leaves };
            match look(pc, &it) {
                Step::GoOn => {}
                Step::Turn => continue,
                Step::Found => return true,
            }
            let next = pc.wrapping_add(u64::from(it.length));
            match it.op {
                Op::Jal if it.rd == Reg::ZERO => rest.push(pc.wrapping_add_signed(it.imm)),
                // The system call `exit` ends a script like a return ends a function.
                Op::Addi if (it.rd, it.rs1, it.imm) == (A7, Reg::ZERO, EXIT) && or_leaves => return true,
                Op::Jalr | Op::FarJumpAbs | Op::FarJumpRel if it.rd == Reg::ZERO => {
                    if or_leaves {
                        return true;
                    }
                }
                _ if it.is_branch() => rest.extend([pc.wrapping_add_signed(it.imm), next]),
                _ => rest.push(next),
            }
        }
        false
    }
}

/// Whether the function can end without executing the instruction at `pc`.
fn avoids(way: &Way, pc: u64, namer: &Namer) -> bool {
    way.leads(namer, true, |at, _| if at == pc { Step::Turn } else { Step::GoOn })
}

/// Whether the other direction of `branch`, which follows the instruction that computed the exit code,
/// computes another code: then the compiler moved that instruction before the branch.
fn makes_another(made: &Stack, branch: &Branch, vm: u64, namer: &Namer) -> bool {
    let Some((program, made)) = top(made) else { return false };
    let Some(it) = namer.instruction(program, made, vm) else { return false };
    let next = made.wrapping_add(u64::from(it.length));
    // Unoptimised code stores the value in memory.
    let stored = namer.instruction(program, next, vm);
    let slot = stored
        .filter(|stored| is_store(stored) && stored.rs2 == it.rd)
        .map(|stored| (stored.rs1, stored.imm));
    let is_call = |op| matches!(op, Op::Jal | Op::Jalr | Op::FarJumpAbs | Op::FarJumpRel | Op::Ecall);
    let look = |_: u64, at: &Instruction| match slot {
        Some(slot) if is_store(at) && (at.rs1, at.imm) == slot => Step::Found,
        Some(_) => Step::GoOn,
        None if [at.rs1, at.rs2, at.rs3, at.rs4].contains(&it.rd) => Step::Turn,
        None if at.rd == it.rd => Step::Found,
        // A call may read argument registers, and clobbers caller-saved ones.
        None if is_call(at.op) && at.rd != Reg::ZERO && (10..14).contains(&it.rd.0) => Step::Turn,
        None if is_call(at.op) && at.rd != Reg::ZERO && matches!(it.rd.0, 5..8 | 14..18 | 28..32) => {
            Step::Found
        }
        None => Step::GoOn,
    };
    let leads = |from| Way { program, vm, from }.leads(namer, false, look);
    // After a call or in a loop, both directions may compute another code.
    leads(branch.instead) && !leads(branch.to)
}

fn is_store(it: &Instruction) -> bool {
    matches!(it.op, Op::Sb | Op::Sh | Op::Sw | Op::Sd)
}

/// The instruction on top of a stack.
pub(crate) fn top(stack: &Stack) -> Option<(u32, u64)> {
    match stack.inner.last()? {
        Called::At { program, pc } => Some((*program, *pc)),
        Called::Exec(_) | Called::Spawn(_) => None,
    }
}

/// The system call that a value came from; the origin of a computation's operand is more informative than the
/// computation.
pub(crate) fn of_value(value: &Value) -> Option<u64> {
    let of = |made: &Made| match made {
        Made::SystemCall(index) => Some(*index),
        Made::Memory { system_call, .. } => *system_call,
        Made::Before | Made::Code { .. } => None,
    };
    of(&value.made).or_else(|| value.of.as_ref().and_then(of))
}

/// The system call that decided: the one in progress at the end, the origin of the value, or one whose
/// result the branch compared.
pub(crate) fn system_call(value: Option<&Value>, branch: Option<&Branch>) -> Option<u64> {
    let sides = || branch.and_then(|branch| of_value(&branch.left).max(of_value(&branch.right)));
    value.and_then(of_value).or_else(sides)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_on_is_known() {
        for name in ["_start", "core::panicking::panic", "exit", "[spawn #1]", "ckb_exit", "memcpy"] {
            assert!(is_runtime(name), "{name}");
        }
        for name in ["main", "exit_code_of", "starts", "callback", "fn_0x10000", "check"] {
            assert!(!is_runtime(name), "{name}");
        }
    }
}
