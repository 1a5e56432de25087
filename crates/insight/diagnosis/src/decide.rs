//! Which branch, value and place decided.

use antares_profile::evidence::seen::{Branch, Called, Made, Stack, Value, Vm};
use antares_program::{Op, Reg};

use crate::{names::Namer, report::Frame};

/// Instructions that are looked at behind a branch.
const SCANNED_MAX: usize = 64;

/// Beginnings of names of functions that pass on what others have decided.
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

/// Whether a function only passes on what others have decided.
pub(crate) fn is_runtime(name: &str) -> bool {
    RUNTIME.iter().any(|start| name.starts_with(start) && (start.len() > 5 || is_whole(name, start)))
}

/// Short names count as a whole only; beginnings that end in a sign do not.
fn is_whole(name: &str, start: &str) -> bool {
    name == start || !start.ends_with(|last: char| last.is_ascii_alphanumeric())
}

/// Without the innermost functions that only pass on; all of them if there are no others.
pub(crate) fn own(frames: &[Frame]) -> Option<&[Frame]> {
    let first = frames.iter().position(|frame| !is_runtime(&frame.function))?;
    Some(&frames[first..])
}

/// The branch that decided about the end of `vm`.
pub(crate) fn branch<'a>(vm: &'a Vm, namer: &Namer<'_>) -> Option<&'a Branch> {
    let later = vm.later_branch.as_ref();
    later.filter(|later| makes_another(vm, later, namer)).or(vm.branch.as_ref())
}

/// Whether the other way of `branch`, which comes behind the instruction that made the exit code, makes
/// another one: then the compiler has put that instruction before the branch.
fn makes_another(vm: &Vm, branch: &Branch, namer: &Namer<'_>) -> bool {
    let Some((program, made)) = maker(vm.value.as_ref()) else { return false };
    let Some(register) = namer.instruction(program, made, vm.id).map(|it| it.rd) else { return false };
    let overwrites = |pc| is_overwritten(register, program, pc, vm.id, namer);
    // Both ways of what follows a call, or a loop, may do so.
    overwrites(branch.instead) && !overwrites(branch.to)
}

fn maker(value: Option<&Value>) -> Option<(u32, u64)> {
    match &value?.made {
        Made::Code { stack } => top(stack),
        _ => None,
    }
}

/// The instruction on top of a stack.
pub(crate) fn top(stack: &Stack) -> Option<(u32, u64)> {
    match stack.inner.last()? {
        Called::At { program, pc } => Some((*program, *pc)),
        Called::Exec(_) | Called::Spawn(_) => None,
    }
}

/// Whether the code at `pc` writes to `register` before it reads it or goes elsewhere.
fn is_overwritten(register: Reg, program: u32, mut pc: u64, vm: u64, namer: &Namer<'_>) -> bool {
    for _ in 0..SCANNED_MAX {
        let Some(it) = namer.instruction(program, pc, vm) else { return false };
        if [it.rs1, it.rs2, it.rs3, it.rs4].contains(&register) {
            return false;
        }
        match it.op {
            Op::Jal if it.rd == Reg::ZERO => {
                pc = pc.wrapping_add_signed(it.imm);
                continue;
            }
            Op::Jal | Op::Jalr | Op::FarJumpAbs | Op::FarJumpRel | Op::Ecall | Op::Ebreak => return false,
            _ if it.rd == register => return true,
            _ => {}
        }
        pc = pc.wrapping_add(u64::from(it.length));
    }
    false
}

/// The system call that a value came from.
fn of_value(value: &Value) -> Option<u64> {
    let of = |made: &Made| match made {
        Made::SystemCall(index) => Some(*index),
        Made::Memory { system_call, .. } => *system_call,
        Made::Before | Made::Code { .. } => None,
    };
    of(&value.made).or_else(|| value.of.as_ref().and_then(of))
}

/// The system call that decided: the one under way at the end, the one that gave the value, or one of those
/// that the branch has compared results of.
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
