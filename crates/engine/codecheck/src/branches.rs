//! Checks branch targets: a direct branch goes to the start of an instruction, an indirect one to an address
//! computed in a known way.

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::{
    CodeFault,
    image::Image,
    values::{Reader, Value, host_function},
    walk::{Lines, goes_on},
};

/// Checks the target of the instruction at `index`.
pub(crate) fn check(index: usize, lines: &Lines, image: &Image<'_>) -> Result<(), CodeFault> {
    let instruction = &lines.instructions[index];
    if instruction.is_ip_rel_memory_operand() && lines.is_inside(instruction.memory_displacement64()) {
        // Code that takes such an address can only mean to branch there.
        return Err(CodeFault::Target { address: instruction.memory_displacement64() });
    }
    match instruction.flow_control() {
        FlowControl::Next | FlowControl::Interrupt | FlowControl::Exception => Ok(()),
        FlowControl::Return if instruction.code() == Code::Retnq => Ok(()),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::Call
            if instruction.op0_kind() == OpKind::NearBranch64 =>
        {
            let address = instruction.near_branch64();
            if lines.begins(address) { Ok(()) } else { Err(CodeFault::Target { address }) }
        }
        FlowControl::IndirectBranch | FlowControl::IndirectCall
            if matches!(instruction.code(), Code::Jmp_rm64 | Code::Call_rm64) =>
        {
            let is_known = match instruction.op0_kind() {
                OpKind::Memory => host_function(instruction).is_some(),
                _ => is_computed(index, lines, image),
            };
            if is_known { Ok(()) } else { Err(CodeFault::Computed) }
        }
        _ => Err(CodeFault::Instruction(instruction.mnemonic())),
    }
}

/// Whether the branch register holds a table plus its entry, a host function, the result of one, or the
/// function that an entry thunk names.
fn is_computed(index: usize, lines: &Lines, image: &Image<'_>) -> bool {
    let target = lines.instructions[index].op0_register();
    match Reader::before(lines, index).value(target, index) {
        Some(Value::Place | Value::Host(_) | Value::Thunk) => true,
        Some(Value::Opaque { writer: None, .. }) => is_entered(index, target, lines, image),
        _ => false,
    }
}

/// Whether a call by `target` is the baseline's entry stub. Only jumps reach the stub's straight-line code,
/// and each of them directly follows `lea target, [rip + function]`.
fn is_entered(index: usize, target: Register, lines: &Lines, image: &Image<'_>) -> bool {
    let start = lines.line_start(index);
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
        // Libraries without functions contain the stub too.
        None => thunks.is_empty(),
    };
    is_new && is_not_an_entry && is_taken
}
